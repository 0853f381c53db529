"""A node lost inside consensus() or averaged(): the others keep the model they had, and save it."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

import basegraph as bg
from basegraph.engines import checkpoint
from basegraph.engines.distributed.mixer import DistributedMixer
from support.forked import fork
from support.forks import run_script
from support.launch import free_port

NODES = 4
STEPS = 3
CASES = (("consensus", 0), ("consensus", 1), ("consensus", 2), ("averaged", 1))
"""Calls, and their exchanges after which a node dies: four nodes need two, then they broadcast."""
EXCHANGES = 2


def case(call: str, lost_at: int) -> str:
    return f"{call}-{lost_at}"


def node(call: str, lost_at: int, folder: Path, rank: int) -> int:
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 3)
    optimizer = bg.DecentralizedOptimizer(
        net.parameters(), lr=0.1, timeout=20.0, checkpoint=folder / case(call, lost_at)
    )
    for _ in range(STEPS):
        optimizer.zero_grad()
        net(torch.full((2, 4), float(rank))).square().sum().backward()
        optimizer.step()
    if rank == 2:
        die_after(lost_at)
    before = optimizer.model.clone()
    try:
        if call == "consensus":
            optimizer.consensus()
        else:
            with optimizer.averaged():
                print("not reached")
    except bg.PeerLost as error:
        same = torch.equal(before, optimizer.model)
        saved = checkpoint.load(folder / case(call, lost_at) / f"node-{rank}.safetensors")
        kept = torch.equal(saved[0]["x"], before) and saved[1]["step"] == STEPS
        print(f"as it was: {same}, saved: {kept}; {error}", flush=True)
        return 1
    return 0


def die_after(exchanges: int) -> None:
    """Have this process die when it begins the next exchange, or the broadcast after them."""
    mix, made = DistributedMixer.mix, 0

    def mix_or_die(self, *arguments, **options):
        nonlocal made
        if made == exchanges:
            os.kill(os.getpid(), signal.SIGKILL)
        made += 1
        mixed = mix(self, *arguments, **options)
        if made == exchanges == EXCHANGES:
            os.kill(os.getpid(), signal.SIGKILL)
        return mixed

    DistributedMixer.mix = mix_or_die


def main(folder: Path) -> None:
    """All nodes of all cases are forks of this process."""
    children = {}
    for call, lost_at in CASES:
        port = free_port()
        for rank in range(NODES):
            name = f"{case(call, lost_at)}.{rank}"
            child = fork(rank, NODES, port, partial(node, call, lost_at, folder), folder / name)
            children[child] = name
    for child, name in children.items():
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        (folder / f"{name}.code").write_text(str(code))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    run_script(__file__, folder)
    return folder


@pytest.mark.parametrize(("call", "lost_at"), CASES)
def test_nothing_is_half_mixed_and_all_is_saved(call, lost_at, outcome):
    assert (outcome / f"{case(call, lost_at)}.2.code").read_text() == str(-signal.SIGKILL)
    for rank in (0, 1, 3):
        said = (outcome / f"{case(call, lost_at)}.{rank}").read_text()
        last = said.splitlines()[-1]
        assert last.startswith("as it was: True, saved: True; node "), said
        assert f"{call}()" in last, said
        assert f"saved node {rank} after {STEPS} steps" in last, said
        assert (outcome / f"{case(call, lost_at)}.{rank}.code").read_text() == "1"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
