"""What becomes of a method's state when a node is lost: kept, or begun anew."""

from __future__ import annotations

import numpy as np
import pytest

import basegraph as bg
from basegraph.algorithms.catalog import ALGORITHMS

NODES, SIZE, LR = 5, 3, 0.1
TIED = ("d2", "exact-diffusion", "gradient-tracking", "momentum-tracking")
"""Methods with states that belong together over all nodes."""


def mix_of(n):
    matrix = bg.topology("ring", n=n)[0].matrix()
    return lambda x: matrix @ x


def after_a_loss(name):
    """The survivors' x and states, in the middle of training on different data."""
    method = ALGORITHMS[name]()
    random = np.random.default_rng(0)
    x = random.normal(size=(NODES, SIZE))
    state, mix = method.init(x), mix_of(NODES)
    if method.centralized:
        mix = lambda v: np.broadcast_to(v.mean(axis=0), v.shape)  # noqa: E731
    for _ in range(3):
        gradient = method.gradient_point(x, state) - np.arange(NODES)[:, None]
        x, state = method.step(x, gradient, state, LR, mix)
    return method, x[1:], type(state)(*(part[1:] for part in state))


def drift(method, x, state):
    """How far a step without gradients moves the average of the survivors."""
    moved, _ = method.step(x, 0 * x, state, LR, mix_of(len(x)))
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


def test_which_methods_keep_their_state():
    keep = [name for name in ALGORITHMS if ALGORITHMS[name]().keeps_state]
    assert keep == ["dsgd", "dsgdm", "qg-dsgdm", "adamw", "allreduce-sgd", "allreduce-adamw"]
