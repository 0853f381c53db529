"""What `membership.contract` promises, held against every kind of membership."""

from __future__ import annotations

import os

import pytest
import torch
import torch.distributed as dist

from basegraph.engines.distributed import collectives
from basegraph.engines.distributed.membership.fixed import FixedMembership
from basegraph.engines.distributed.membership.handshake import (
    Refused,
    require_alike,
    texts_of_all,
    together,
)
from basegraph.errors import BasegraphError


@pytest.fixture(scope="module", autouse=True)
def _one_process():
    """This process as the only node."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(params=["fixed", "fixed, of a group"])
def membership(request):
    group = dist.new_group([0]) if request.param != "fixed" else None
    return FixedMembership(group, timeout=60.0)


def test_nodes_are_the_ranks_of_the_group(membership):
    assert (membership.node, membership.n) == (0, 1)
    assert dist.get_process_group_ranks(membership.group) == [0]
    assert membership.progress.size == membership.n
    assert membership.progress.timeout == membership.timeout == 60.0


def test_another_device_is_the_same_membership(membership):
    other = membership.on(torch.device("meta"))
    assert other.device == torch.device("meta")
    assert membership.device == torch.device("cpu")
    assert (other.node, other.n, other.timeout) == (0, 1, 60.0)
    assert other.group is membership.group
    assert other.progress is membership.progress


def test_collectives_and_handshakes_take_it(membership):
    x = torch.arange(3.0)
    collectives.all_reduce(x, membership, "a test")
    collectives.broadcast(x, membership, "a test")
    collectives.scatter(x, [2 * x], membership, "a test")
    assert x.tolist() == [0.0, 2.0, 4.0]
    for gather in (collectives.gather, collectives.all_gather):
        assert [row.tolist() for row in gather(x, membership, "a test")] == [[0.0, 2.0, 4.0]]
    require_alike({"lr": 0.1}, membership)
    assert texts_of_all("grün", membership) == ["grün"]
    assert together(lambda: 3, membership) == 3


def test_what_fails_at_one_node_is_refused_at_all(membership):
    def fail():
        raise BasegraphError("no such dataset")

    with pytest.raises(Refused, match="no such dataset") as refusal:
        together(fail, membership)
    assert refusal.value.reported_by == 0
