"""Who is lost, by what the nodes have noted."""

from __future__ import annotations

import re
import threading
import time

import pytest
import torch.distributed as dist

import basegraph as bg
from basegraph.engines.distributed.bounded import within
from basegraph.engines.distributed.membership.progress import Progress, Report, seconds, suspects
from support.forks import run_script


def gave_up(entered: int, waited_for: int | None = None) -> Report:
    return Report(entered, "there", True, waited_for)


@pytest.mark.parametrize(
    ("reports", "peer", "lost"),
    [
        ([gave_up(5, 1), Report(5, "there")], 1, [1]),
        ([gave_up(5, 1), None], 1, [1]),
        ([gave_up(5, 1), gave_up(5, 2), gave_up(5, 3), Report(5, "there")], 1, [3]),
        ([gave_up(5, 1), gave_up(5), Report(5, "there")], 1, [2]),  # node 1 in a collective
        ([gave_up(5), gave_up(5), Report(5, "there")], None, [2]),
        ([gave_up(5), Report(4, "before"), Report(5, "there")], None, [1]),  # node 2 waits longer
        ([gave_up(5), Report(4, "before"), None, None], None, [2, 3]),
        ([gave_up(5), Report(5, "there"), Report(5, "there")], None, []),  # either of them
        ([gave_up(5), Report(6, "after"), Report(7, "after")], None, []),
        ([gave_up(5, 1), gave_up(5, 0)], 1, [1]),  # they wait for each other
        ([gave_up(5), gave_up(5)], None, []),
    ],
)
def test_suspects(reports, peer, lost):
    assert suspects(reports, node=0, peer=peer) == lost


def test_survivors_name_the_same_node():
    """Node 3 is lost; node 2 waits for it, node 1 for node 2, node 0 in a collective."""
    store = dist.HashStore()
    nodes = [Progress(store, node, 4, timeout=60.0) for node in range(4)]
    for node in nodes:
        node.reached("step 7")
    errors = {}

    def give_up(node: int, peer: int | None) -> None:
        errors[node] = nodes[node].peer_lost(peer, "step 8", RuntimeError("timed out"), 60.004)

    waiting = [threading.Thread(target=give_up, args=each) for each in [(0, None), (1, 2), (2, 3)]]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join()
    assert [errors[node].node for node in range(3)] == [3, 3, 3]
    assert str(errors[0]) == (
        "node 0: node 3 (last seen at step 7) did not answer at step 8 within 60 s (waited 60.00 s)"
        ": timed out"
    )
    assert str(errors[1]).startswith("node 1: node 3 did not answer")


def test_a_store_that_hangs_is_not_waited_for(monkeypatch):
    class Hung:
        def set(self, key: str, value: str) -> None:
            pass

        def add(self, key: str, amount: int) -> int:
            time.sleep(100)
            return 0

    monkeypatch.setattr("basegraph.engines.distributed.membership.progress.GRACE", 0.1)
    progress = Progress(Hung(), 1, 2, timeout=60.0, host=0)
    error = progress.peer_lost(None, "step 8", RuntimeError("Connection closed"), 0.25)
    assert error.node == 0
    assert str(error) == (
        "node 1: node 0 did not answer at step 8 (waited 0.25 s): Connection closed"
    )


def test_within():
    assert within(60, lambda: 3) == 3
    with pytest.raises(KeyError):
        within(60, lambda: {}["nothing"])
    with pytest.raises(TimeoutError):
        within(0.01, lambda: time.sleep(100))


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), 1e300, 1e-9, True, "5"])
def test_timeouts_that_cannot_be_waited_for(timeout):
    with pytest.raises(bg.InvalidArgument, match=r"timeout=.*must be a number of seconds"):
        seconds(timeout)


def test_neighbors_name_a_straggler(tmp_path):
    run_script("straggler.py", tmp_path)
    t = bg.topology("base:k=1", n=6)
    met = {j for phase in range(t.period) for j in t.neighbors(3, phase)}
    for rank in range(6):
        said = (tmp_path / str(rank)).read_text()
        named = re.findall(r"node \d: (\d+) % of .* waiting, and node (\d) hardly waits", said)
        assert len(named) == (rank in met), (rank, said)
        assert all(slow == "3" and int(share) > 50 for share, slow in named), said
        total, by_neighbor = map(float, said.split("waited ")[-1].split())
        assert total == pytest.approx(by_neighbor)
