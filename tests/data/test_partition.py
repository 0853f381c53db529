from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import basegraph as bg
from basegraph.data.partition import dirichlet, heterogeneity, hold_out, require_samples

LABELS = np.arange(3000) % 10


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 40),
    st.sampled_from([1e-6, 0.001, 0.1, 1.0, 10.0, 1e6]),
    st.integers(0, 5),
    st.integers(40, 400),
)
def test_everyone_holds_equally_many_and_nobody_the_same(nodes, alpha, seed, count):
    labels = np.random.default_rng(seed).integers(0, 7, count)
    parts = dirichlet(labels, nodes, alpha, seed)
    assert parts.shape == (nodes, count // nodes)
    assert len(np.unique(parts)) == parts.size
    assert parts.min() >= 0
    assert parts.max() < count


def test_smaller_alpha_is_more_heterogeneous():
    measured = [
        heterogeneity(LABELS, dirichlet(LABELS, 25, alpha, seed=0))
        for alpha in (1000.0, 10.0, 1.0, 0.1, 0.001)
    ]
    assert measured == sorted(measured)
    assert measured[0] < 0.06
    assert measured[3] > 0.6
    assert np.isfinite(measured).all()


@pytest.mark.parametrize("n", [21, 25])
def test_no_node_is_left_with_an_even_mixture(n):
    """The trap of splitting in groups of ten: the last node of n = 21 would be almost IID."""
    parts = dirichlet(LABELS, n, 0.1, seed=0)
    own = np.stack([np.bincount(LABELS[p], minlength=10) / len(p) for p in parts])
    assert (np.abs(own - 0.1).sum(axis=1) / 2).min() > 0.3


def test_shares_of_a_class_are_dirichlet():
    """Before rebalancing bites (α large), the spread of a class's shares is Dir(α)'s."""
    alpha, n = 50.0, 10
    labels = np.zeros(20_000, dtype=np.int64)
    labels[10_000:] = 1
    shares = []
    for seed in range(40):
        parts = dirichlet(labels, n, alpha, seed)
        shares.append((labels[parts] == 0).mean(axis=1))
    # Each node keeps a share a/(a+b) of class 0, a and b independent Dir(α) shares.
    spread = np.std(shares)
    relative = np.sqrt((n - 1) / (n * alpha + 1))
    assert spread == pytest.approx(relative / np.sqrt(8), rel=0.15)


def correlation_of_number_and_class(nodes, seed, order):
    """How much nodes with nearby numbers hold nearby classes."""
    parts = dirichlet(LABELS, nodes, 0.1, seed, order)
    return np.corrcoef(np.arange(nodes), LABELS[parts].mean(axis=1))[0, 1]


@pytest.mark.parametrize("nodes", [25, 100])
def test_a_nodes_number_says_nothing_about_its_classes(nodes):
    """Neighbors in a ring are neighbors in number: they must not hold similar data.

    The correlation with a random permutation has mean 0 and deviation 1/sqrt(nodes - 1).
    """
    seeds = range(100)
    mean, deviation = {}, 1 / np.sqrt(nodes - 1)
    for order in ("shuffled", "by-class"):
        correlations = [correlation_of_number_and_class(nodes, seed, order) for seed in seeds]
        mean[order] = np.mean(correlations)
    assert abs(mean["shuffled"]) < 3 * deviation / np.sqrt(len(seeds))
    assert mean["by-class"] > 0.3


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
@pytest.mark.parametrize("nodes", [1, 2, 25, 100])
def test_orders_differ_only_in_who_holds_which_share(nodes, seed):
    shuffled = dirichlet(LABELS, nodes, 0.1, seed).tolist()
    by_class = dirichlet(LABELS, nodes, 0.1, seed, "by-class").tolist()
    assert sorted(shuffled) == sorted(by_class)
    assert nodes < 25 or shuffled != by_class


def test_unknown_order():
    with pytest.raises(bg.InvalidArgument, match="split_order='x': must be shuffled or by-class"):
        dirichlet(LABELS, 5, 0.1, 0, "x")


def test_drawn_from_the_seed_alone():
    a, b = dirichlet(LABELS, 5, 0.1, seed=3), dirichlet(LABELS, 5, 0.1, seed=3)
    assert np.array_equal(a, b)
    assert not np.array_equal(a, dirichlet(LABELS, 5, 0.1, seed=4))


def test_hold_out():
    validation, rest = hold_out(100, 0.1, seed=0)
    assert len(validation) == 10
    assert sorted([*validation, *rest]) == list(range(100))
    assert len(hold_out(100, 0.0, seed=0)[0]) == 0
    with pytest.raises(bg.InvalidArgument, match=r"validation=1\.0"):
        hold_out(100, 1.0, seed=0)


@pytest.mark.parametrize("count", [1, 2, 9, 10, 11, 20, 49, 50])
@pytest.mark.parametrize("share", [0.0, 1e-9, 0.02, 0.1, 0.5, 0.999])
def test_a_share_holds_out_one_sample_at_least_and_never_all(count, share):
    validation, rest = hold_out(count, share, seed=0)
    assert sorted([*validation, *rest]) == list(range(count))
    assert len(validation) == (max(1, int(count * share)) if share and count > 1 else 0)
    assert len(rest) >= 1
    require_samples(len(rest), count, share)
    with pytest.raises(bg.InvalidArgument, match=f"must be at most the {len(rest)} training"):
        require_samples(len(rest) + 1, count, share)


@pytest.mark.parametrize("alpha", [0, -1, float("nan"), float("inf")])
def test_bad_alpha(alpha):
    with pytest.raises(bg.InvalidArgument, match=r"alpha=.*must be a number above 0"):
        dirichlet(LABELS, 5, alpha, seed=0)


def test_more_nodes_than_samples():
    with pytest.raises(bg.InvalidArgument, match="nodes=11: must be at most the 10 training"):
        dirichlet(LABELS[:10], 11, 0.1, seed=0)
