"""What becomes of a method's state when a node is lost: kept, or begun anew."""

from __future__ import annotations

import numpy as np
import pytest

from basegraph.algorithms.catalog import ALGORITHMS
from support.quadratics import average, mixes, topology_of

NODES, SIZE, STEPS, LR = 5, 3, 4, 0.1  # in the middle of a period of ceca
TIED = ("d2", "exact-diffusion", "gradient-tracking", "momentum-tracking")
"""Methods with states that belong together over all nodes."""


def mix_of(method, n):
    """The round 0 that is due after a change."""
    return mixes(topology_of(method, "ring", n))(0)


def after_a_loss(name):
    """The survivors' x and states, in the middle of training on different data."""
    method = ALGORITHMS[name]()
    random = np.random.default_rng(0)
    x = random.normal(size=(NODES, SIZE))
    state, mix_at = method.init(x), mixes(topology_of(method, "ring", NODES))
    for step in range(STEPS):
        gradient = method.gradient_point(x, state) - np.arange(NODES)[:, None]
        mix = average if method.centralized else mix_at(step)
        x, state = method.step(x, gradient, state, LR, mix)
    return method, x[1:], type(state)(*(part[1:] for part in state))


def drift(method, x, state):
    """How far a step without gradients moves the average of the survivors."""
    moved, _ = method.step(x, 0 * x, state, LR, mix_of(method, len(x)))
    return np.abs(moved.mean(axis=0) - x.mean(axis=0)).max()


@pytest.mark.parametrize("name", [n for n in ALGORITHMS if not ALGORITHMS[n]().keeps_state])
def test_a_state_that_begins_anew_leaves_the_survivors_average(name):
    method, x, _ = after_a_loss(name)
    assert drift(method, x, method.state(x, step=3)) < 1e-12


@pytest.mark.parametrize("name", TIED)
def test_a_state_that_is_tied_to_other_nodes_would_move_it(name):
    method, x, state = after_a_loss(name)
    assert not method.keeps_state
    assert drift(method, x, state) > 1e-3


def test_trackers_sum_to_what_they_track():
    method, x, state = after_a_loss("gradient-tracking")
    assert np.abs((state.mixed - state.grad).mean(axis=0)).max() > 1e-3
    anew = method.state(x, step=3)
    assert np.abs((anew.mixed - anew.grad).mean(axis=0)).max() == 0
    method, x, state = after_a_loss("momentum-tracking")
    assert np.abs(state.correction.mean(axis=0)).max() > 1e-3
    assert np.abs(method.state(x, step=3).correction).max() == 0
    assert (after_a_loss("sgp")[0].state(x, step=3).mass == 1).all()


@pytest.mark.parametrize("name", ["dsgd-ceca", "dsgdm-ceca"])
@pytest.mark.parametrize("n", range(2, NODES + 3))
def test_a_second_vector_is_replaced_in_round_0(name, n):
    """Whatever the period that was broken off has left in it, with any number of nodes after."""
    method, x, state = after_a_loss(name)
    assert np.abs(state.other - x).max() > 1e-3
    x, state = np.resize(x, (n, SIZE)), type(state)(*(np.resize(s, (n, SIZE)) for s in state))
    kept = method.step(x, x, state, LR, mix_of(method, n))
    anew = method.step(x, x, state._replace(other=x), LR, mix_of(method, n))
    for mine, expected in zip((kept[0], *kept[1]), (anew[0], *anew[1]), strict=True):
        assert np.abs(mine - expected).max() < 1e-12
    if name == "dsgd-ceca":  # momentum moves the average
        assert drift(method, x, state) < 1e-12


def test_which_methods_keep_their_state():
    keep = [name for name in ALGORITHMS if ALGORITHMS[name]().keeps_state]
    assert keep == [
        "dsgd",
        "dsgdm",
        "qg-dsgdm",
        "adamw",
        "allreduce-sgd",
        "allreduce-adamw",
        "dsgd-ceca",
        "dsgdm-ceca",
    ]
