from __future__ import annotations

from fractions import Fraction

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import basegraph as bg
from support.assertions import assert_valid_rounds

F = Fraction


@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(0, 10**6))
def test_any_connected_graph_becomes_a_topology(n, seed):
    tree = nx.random_labeled_tree(n, seed=seed)
    graph = nx.compose(tree, nx.gnp_random_graph(n, 0.3, seed=seed))
    t = bg.from_networkx(graph)
    assert_valid_rounds(t, 1)
    degree = dict(graph.degree())
    for i, j in graph.edges:
        assert t[0].neighbors(i)[j] == F(1, 1 + max(degree[i], degree[j]))


def test_a_whole_sequence_goes_there_and_back():
    for spec in ("base:k=2", "one-peer-exponential", "u-equistatic:degree=3"):
        t = bg.topology(spec, n=8)
        again = bg.from_networkx([r.to_networkx() for r in t], weights="weight")
        assert list(again) == list(t)
        assert again.symmetric == t.symmetric
    bg.verify(bg.from_networkx([r.to_networkx() for r in bg.topology("base", n=7)], "weight"))


def test_labels_are_numbered_in_the_graphs_own_order():
    graph = nx.Graph([("paris", "rome"), ("rome", "oslo")])
    assert bg.from_networkx(graph)[0].neighbors(1) == {0: F(1, 3), 2: F(1, 3)}
    shuffled = nx.Graph([(2, 0), (0, 1)])
    assert set(bg.from_networkx(shuffled)[0].neighbors(0)) == {1, 2}


def test_self_loops_are_passed_over():
    graph = nx.path_graph(3)
    graph.add_edge(1, 1)
    assert bg.from_networkx(graph)[0] == bg.from_networkx(nx.path_graph(3))[0]


def weighted(graph, weight):
    nx.set_edge_attributes(graph, weight, "w")
    return graph


@pytest.mark.parametrize(
    ("graph", "weights", "complaint"),
    [
        (nx.Graph(), "metropolis", "at least one node"),
        (nx.empty_graph(3), "metropolis", "must be connected; it has 3 components"),
        (nx.MultiGraph([(0, 1), (0, 1)]), "metropolis", "must not be a multigraph"),
        (nx.DiGraph([(0, 1), (1, 0)]), "metropolis", "needs an undirected graph"),
        (nx.path_graph(3), "w", r"weights='w': the edge \(0, 1\) has no such attribute"),
        (weighted(nx.path_graph(3), 0), "w", r"w=0: the weight of edge \(0, 1\) must be"),
        (weighted(nx.path_graph(3), float("nan")), "w", r"w=nan: the weight of edge"),
        (weighted(nx.path_graph(3), "much"), "w", r"w='much': the weight of edge"),
        (weighted(nx.path_graph(3), 0.6), "w", "node 1 hears weights that sum to 6/5"),
        (weighted(nx.DiGraph([(0, 1), (1, 2)]), 0.5), "w", "not doubly stochastic: column 0"),
        ("a graph", "metropolis", "must be a networkx graph"),
        ([], "metropolis", "must be a networkx graph"),
        ([nx.path_graph(2), nx.path_graph(3)], "metropolis", "must all have the same nodes"),
    ],
)
def test_wrong_graphs_are_refused(graph, weights, complaint):
    with pytest.raises(bg.BasegraphError, match=complaint):
        bg.from_networkx(graph, weights)


def test_given_weights_are_taken_as_written():
    cycle = weighted(nx.DiGraph([(0, 1), (1, 2), (2, 0)]), 0.1)
    t = bg.from_networkx(cycle, "w")
    assert not t.symmetric
    assert t[0].neighbors(1) == {0: F(1, 10)}
