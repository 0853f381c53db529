"""Topologies of one's own are checked before a run or an optimizer relies on them."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

import basegraph as bg
from support.single import single_node

HALF = Fraction(1, 2)
UNEVEN = bg.Sequence(
    [
        bg.Round.from_arcs(
            5,
            {(0, i): Fraction(1, 5) for i in range(1, 5)} | {(i, 0): HALF for i in range(1, 5)},
        )
    ]
)


class Matchings(bg.Topology):
    """Pairs that depend on the step; without a period."""

    spec, n, period, max_degree, symmetric = "matchings", 4, None, 1, True

    def _round(self, phase):
        partner = 1 + phase % 3
        others = [i for i in range(1, 4) if i != partner]
        return bg.Round.from_edges(4, {(0, partner): HALF, tuple(others): HALF})


class Nameless(bg.Topology):
    n, period, max_degree, symmetric = 4, 1, 1, True

    def _round(self, phase):
        return Matchings().round(0)


class Smaller(Matchings):
    n = 5


def test_a_function_of_the_step_trains(tmp_path):
    config = bg.RunConfig(nodes=4, epochs=1, validation=0.0)
    assert bg.train(config, tmp_path / "run", topology=Matchings())[-1]["epoch"] == 1


@pytest.mark.parametrize(
    ("topology", "kind", "complaint"),
    [
        (UNEVEN, bg.InvalidRound, "custom, round 0: not doubly stochastic: column 0 sums to 11/5"),
        (Nameless(), bg.InvalidArgument, "topology='Nameless': must set spec"),
        (Smaller(), bg.InvalidRound, "matchings, round 0: has 4 nodes instead of 5"),
    ],
)
def test_what_would_not_keep_the_average_is_refused(topology, kind, complaint, tmp_path):
    with pytest.raises(kind, match=f"^{complaint}"):
        bg.train(bg.RunConfig(nodes=topology.n, epochs=1), tmp_path / "run", topology=topology)
    with single_node(), pytest.raises(kind, match=f"^{complaint}"):
        bg.DecentralizedOptimizer(
            [torch.nn.Parameter(torch.zeros(3))], "dsgd", lr=0.1, topology=topology
        )


def test_a_graph_is_no_topology_yet():
    import networkx

    p = torch.nn.Parameter(torch.zeros(3))
    with (
        single_node(),
        pytest.raises(bg.InvalidArgument, match=r"bg\.from_networkx makes one of a graph"),
    ):
        bg.DecentralizedOptimizer([p], "dsgd", lr=0.1, topology=networkx.path_graph(3))


def test_a_name_is_no_topology_to_verify():
    with pytest.raises(bg.InvalidArgument, match=r"^topology='base': must be a topology: "):
        bg.verify("base")
