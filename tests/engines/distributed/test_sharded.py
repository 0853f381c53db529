"""FSDP2 inside a node, gossip between nodes: three nodes of two shards each."""

from __future__ import annotations

import signal

import pytest

from support.forks import nodes_of


@pytest.mark.parametrize("methods", ["some", pytest.param("all", marks=pytest.mark.slow)])
def test_the_numbers_of_unsharded_nodes_and_of_the_simulator(methods):
    done = nodes_of(6, "sharded_numbers.py", methods)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    assert done.stdout.count("fine:") == 4


def test_what_does_not_fit_is_refused_in_one_line():
    done = nodes_of(6, "sharded_refusals.py")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    assert done.stdout.count("fine:") == 3


@pytest.mark.parametrize(
    "how", [signal.SIGSTOP, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)]
)
def test_a_lost_process_ends_all_others_without_torchrun(how):
    """Also those that wait for it inside its node, where torch would wait for half an hour."""
    done = nodes_of(6, "sharded_lost.py", 10, 4, int(how), watched=False)
    others = {rank: code for rank, code in done.codes.items() if rank != 4}
    assert sorted(others) == [0, 1, 2, 3, 5], done
    assert set(others.values()) <= {3, 4}, done
    assert "node 2 did not answer at step" in done.stdout, done


@pytest.mark.slow
def test_tensor_parallelism_inside_of_a_node():
    done = nodes_of(8, "tensor_parallel.py")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
