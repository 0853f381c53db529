"""Nodes lost at start-up and in collectives are named in one line; no node outlives torchrun."""

from __future__ import annotations

import sys

import pytest

from basegraph.engines import checkpoint
from scripts.faults import NODES, SCENARIOS
from support.forks import run_script
from support.jobs import Job
from support.launch import command

SEEN = {
    "dies while connecting": "its start",
    "hangs while connecting": "the rendezvous",
    "dies before the handshake": "the rendezvous",
    "dies in the handshake": "the handshake",
    "hangs before the broadcast": "the handshake",
    "dies in an all-reduce": "step 3",
    "hangs before an all-reduce": "step 2",
    "dies in a group of some": "step 2",
}
"""How far the lost node got, where others can know it."""


def test_the_lost_node_is_named_in_one_line(tmp_path):
    run_script("faults.py", tmp_path)
    for name, scenario in SCENARIOS.items():
        said = {rank: (tmp_path / name / str(rank)).read_text() for rank in range(NODES)}
        del said[scenario.lost]
        if scenario.subgroup:
            del said[0]
        first = 1 if scenario.subgroup else 0
        lost = scenario.lost - first
        seen = f" (last seen at {SEEN[name]})" if name in SEEN else ""
        for rank, text in said.items():
            message = f"PeerLost({lost}): node {rank - first}: node {lost}{seen} did not answer at "
            assert text.splitlines()[-1].startswith(message), (name, text)
            assert "Traceback" not in text
            assert (tmp_path / name / f"{rank}.code").read_text() == "1", name


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_nodes_of_a_script_save_and_stop_when_torchrun_is_killed(tmp_path):
    saved = tmp_path / "saved"
    run = command(2, "endless_script.py", 60, saved, "adapt-then-combine")
    with Job(tmp_path / "log", run) as job:
        job.wait_for(r"going(.|\n)*going")  # two nodes' lines may come in one
        text = job.kill(job.worker(0), job.worker(1))
    assert "stopped by the end of torchrun; saved node " in text
    assert "Traceback" not in text
    steps = [checkpoint.header(saved / f"node-{node}.safetensors")[0]["step"] for node in range(2)]
    assert abs(steps[0] - steps[1]) <= 1
    assert min(steps) > 3
