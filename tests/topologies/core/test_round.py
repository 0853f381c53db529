from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import basegraph as bg
from basegraph import Origin, Round
from basegraph.topologies.transform.copies import spread, tiled
from support.assertions import assert_arcs_well_formed, dense


@st.composite
def rounds(draw):
    """Any symmetric round with room for a self weight."""
    n = draw(st.integers(1, 7))
    pairs = [(i, j) for i in range(n) for j in range(i)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True) if pairs else st.just([]))
    weight = st.builds(Fraction, st.integers(1, 9), st.integers(70, 99))
    return Round.from_edges(n, {pair: draw(weight) for pair in chosen})


@given(rounds())
def test_views_are_exact(r):
    assert_arcs_well_formed(r)
    matrix = dense(r)
    for i in range(r.n):
        assert r.neighbors(i) == {j: w for j, w in enumerate(matrix[i]) if w and j != i}
        assert r.self_weight(i) == matrix[i][i]
    assert r.is_symmetric()


@given(rounds(), st.integers(1, 4))
def test_tiled_and_spread_are_copies(r, copies):
    side_by_side, interleaved = tiled(r, copies), spread(r, copies)
    assert side_by_side.n == interleaved.n == r.n * copies
    assert_arcs_well_formed(side_by_side)
    assert_arcs_well_formed(interleaved)
    for c in range(copies):
        for i in range(r.n):
            heard = r.neighbors(i)
            assert side_by_side.neighbors(c * r.n + i) == {c * r.n + j: w for j, w in heard.items()}
            assert interleaved.neighbors(i * copies + c) == {
                j * copies + c: w for j, w in heard.items()
            }


def test_arcs_may_come_in_any_order():
    r = Round(3, np.array([2, 0, 1]), np.array([0, 1, 2]), np.array([1, 1, 1]), np.array([2, 3, 4]))
    assert r.receivers.tolist() == [0, 1, 2]
    assert r.neighbors(2) == {0: Fraction(1, 2)}


def test_arrays_are_read_only():
    r = bg.topology("ring", n=5)[0]
    with pytest.raises(ValueError, match="read-only"):
        r.numerators[0] = 2


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("senders", np.array([0]), "shape"),
        ("numerators", np.array([0.5, 0.5]), "integers"),
        ("denominators", np.array([[2], [2]]), "shape"),
    ],
)
def test_malformed_arcs_are_refused(field, value, complaint):
    arrays = {
        "receivers": np.array([0, 1]),
        "senders": np.array([1, 0]),
        "numerators": np.array([1, 1]),
        "denominators": np.array([2, 2]),
    }
    with pytest.raises(bg.InvalidArgument, match=f"{field}=.*{complaint}"):
        Round(2, **{**arrays, field: value})


@pytest.mark.parametrize(("receiver", "sender"), [(0, 2), (-1, 1), (2, 0), (0, -2)])
def test_arcs_stay_among_the_nodes(receiver, sender):
    with pytest.raises(bg.InvalidRound, match=f"arc {receiver} ← {sender} leaves the nodes 0 to 1"):
        Round(2, *(np.array([value]) for value in (receiver, sender, 1, 2)))


@pytest.mark.parametrize(
    ("edges", "complaint"),
    [
        ({(0, 1): Fraction(1, 2), (1, 0): Fraction(1, 3)}, "is given in both directions"),
        ({(1, 1): Fraction(1, 2)}, "must join two nodes"),
        ({(0, 1): Fraction(3, 2)}, r"must be a number in \(0, 1\]"),
        ({(0, 1): Fraction(1, 2**62)}, "must have a denominator below"),
        ({(0, 1): "much"}, "weight='much'"),
    ],
)
def test_wrong_edges_are_refused(edges, complaint):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        Round.from_edges(2, edges)


def test_numbers_of_nodes_are_checked():
    nothing = np.empty(0, dtype=np.int64)
    with pytest.raises(bg.InvalidArgument, match="n=0: must be an integer ≥ 1"):
        Round(0, nothing, nothing, nothing, nothing)
    assert type(Round(np.int64(2), nothing, nothing, nothing, nothing).n) is int


def test_a_round_takes_its_arrays_over():
    arrays = [np.array(values) for values in ([0, 1], [1, 0], [1, 1], [2, 2])]
    Round(2, *arrays)
    with pytest.raises(ValueError, match="read-only"):
        arrays[2][0] = 5
    with pytest.raises(bg.InvalidArgument, match="must fit into int64"):
        Round(2, np.array([0]), np.array([1]), np.array([2**63], dtype=np.uint64), np.array([1]))


def test_huge_common_denominators_stay_exact():
    primes = [2**31 - 1, 2**30 - 35, 2**29 - 3]
    r = Round.from_edges(4, {(0, i + 1): Fraction(1, p) for i, p in enumerate(primes)})
    expected = 1 - sum(Fraction(1, p) for p in primes)
    scale, _, own = r.over_common_denominator()
    assert own.dtype == object
    assert Fraction(own[0], scale) == expected
    assert r.self_weights[0] == float(expected)


def test_equality_is_of_matrices_not_of_origins():
    pair = Round.from_edges(2, {(0, 1): Fraction(2, 4)})
    assert pair == bg.topology("hyper-hypercube", n=2)[0]
    assert pair != Round.from_edges(2, {(0, 1): Fraction(1, 3)})
    assert pair != Round.from_edges(3, {(0, 1): Fraction(1, 2)})
    assert pair != "a round"


def test_to_networkx_keeps_weights_and_origins():
    graph = bg.topology("base", n=5)[2].to_networkx()
    assert not graph.is_directed()
    assert set(graph) == set(range(5))
    assert graph.edges[0, 4] == {"weight": Fraction(4, 5), "origin": "Alg. 2 line 15"}
    assert graph.edges[1, 2] == {"weight": Fraction(1, 2), "origin": Origin.LINE_20.label}
    directed = bg.topology("one-peer-exponential", n=5)[1].to_networkx()
    assert directed.is_directed()
    assert directed.edges[3, 0]["weight"] == Fraction(1, 2)  # node 0 hears 0 - 2 = 3
    assert isinstance(bg.topology("ring", n=4)[0].to_networkx(), nx.Graph)


def test_a_round_does_not_change_with_the_arrays_it_was_made_from():
    """Views are copied, whoever owns the memory; arrays are taken over."""
    ends = np.array([[0, 1, 7], [1, 0, 7]])
    shown = np.array([1, 1])
    shown_only = shown.view()
    shown_only.flags.writeable = False
    memory = bytearray(np.array([2, 2]).tobytes())
    denominators = np.frombuffer(memory, dtype=np.int64)
    r = bg.Round(2, ends[0, :2], ends[1, :2], shown_only, denominators)
    expected = bg.Round.from_edges(2, {(0, 1): Fraction(1, 2)})
    assert r == expected
    ends[:] = 0
    shown[:] = 7
    memory[0] = 9
    assert r == expected
    owned = np.array([0, 1])
    bg.Round(2, owned, np.array([1, 0]), np.array([1, 1]), np.array([2, 2]))
    with pytest.raises(ValueError, match="read-only"):
        owned[0] = 1


@pytest.mark.parametrize("pair", [(0, 1.9), (0.7, 1), ("a", "b"), (0,), 3, (0, 1, 2), None])
def test_nodes_are_integers(pair):
    for make in (Round.from_edges, Round.from_arcs):
        with pytest.raises(bg.InvalidArgument, match="must be a pair of nodes, integers"):
            make(3, {pair: Fraction(1, 2)})
    assert Round.from_edges(3, {(np.int64(0), 1): Fraction(1, 2)}).neighbors(0) == {1: 1 / 2}


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, copy.copy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_copies_cannot_change_either(copied):
    r = Round.from_edges(3, {(0, 1): Fraction(1, 3)})
    other = copied(r)
    assert other == r
    assert np.array_equal(other.origins, r.origins)
    for array in (other.numerators, other.receivers, other.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
