"""Local steps with an outer optimizer: what the composed method claims, and DiLoCo."""

from __future__ import annotations

import numpy as np
import pytest

import basegraph as bg
from basegraph.algorithms import communicates, round_index, stability, with_outer
from basegraph.engines.vectors import by_name
from support.quadratics import D, Quadratics, average, mixes

INNER = ["dsgd", "dsgdm", "adamw", "sgp"]
OUTER = ["dsgdm:nesterov=true", "dsgd", "gradient-tracking", "sgp", "adamw", "allreduce-sgd"]


def composed(inner="adamw", outer="dsgdm:momentum=0.9,nesterov=true", lr=0.7):
    return with_outer(bg.algorithm(inner), bg.algorithm(outer), lr)


def ring(v):
    return bg.topology("ring", n=4)[0].matrix().toarray() @ v


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_what_it_claims(inner, outer):
    method, random = composed(inner, outer), np.random.default_rng(0)
    x, g = random.standard_normal((2, 4, D))
    sent = []

    def mix(v):
        sent.append(v.shape)
        return ring(v)

    start = method.init(x)
    alone, local = method.move(x, g, start, 0.1, None)
    after, state = method.move(alone, g, local, 0.1, mix)
    assert type(start) is type(local) is type(state) is type(composed(inner, outer).init(x))
    assert [part.shape for part in start] == [part.shape for part in state]
    assert sent.count(x.shape) == method.messages
    for name in method.slow:  # the very arrays: an engine need not copy them
        assert getattr(local, name) is getattr(start, name)
        assert name == "outer_mass" or not np.array_equal(
            getattr(state, name), getattr(start, name)
        )
    assert np.array_equal(after, state.anchor / getattr(state, "outer_mass", 1))
    assert not any(np.shares_memory(after, part) for part in state)
    assert by_name(x, start).keys() == {"x", *(f"state.{name}" for name in start._fields)}
    only, _ = bg.algorithm(inner).move(x, g, bg.algorithm(inner).init(x), 0.1, None)
    assert np.array_equal(alone, only)


@pytest.mark.parametrize("outer", ["dsgdm", "allreduce-sgd"])
def test_the_exact_average_makes_it_diloco(outer):
    """A single anchor, and Nesterov's momentum on the mean of what came of the nodes' steps."""
    n, local_steps, problem = 5, 4, Quadratics(5)
    method = composed("dsgdm", f"{outer}:momentum=0.9,nesterov=true", 0.4)
    x = np.zeros_like(problem.b)
    state = method.init(x)
    anchor, momentum = np.zeros(D), np.zeros(D)
    models, own = np.zeros((n, D)), np.zeros((n, D))
    for step in range(40):
        mix = average if communicates(step, local_steps) else None
        x, state = method.move(x, problem.gradients(x), state, 0.02, mix)
        own = 0.9 * own + problem.gradients(models)
        models = models - 0.02 * own
        if mix is not None:
            way = anchor - models.mean(axis=0)
            momentum = 0.9 * momentum + way
            anchor = anchor - 0.4 * (way + 0.9 * momentum)
            models = np.tile(anchor, (n, 1))
        assert np.allclose(x, models, rtol=0, atol=1e-11)


def test_the_mean_of_the_nodes_reaches_the_solution_by_gossip():
    """Over base:k=1 on five nodes, with one message in four steps, and equal curvature."""
    n, local_steps, problem = 5, 4, Quadratics(5, same_curvature=True)
    method, mix_at = composed("dsgd", lr=0.2), mixes(bg.topology("base", n=n))
    x = np.zeros_like(problem.b)
    state = method.init(x)
    for step in range(2400):
        mix = mix_at(round_index(step, local_steps)) if communicates(step, local_steps) else None
        x, state = method.move(x, problem.gradients(x), state, 0.05, mix)
    assert np.abs(x.mean(axis=0) - problem.solution).max() < 1e-8


def test_decay_is_the_inner_methods():
    x, g = np.random.default_rng(0).standard_normal((2, 4, D))
    for inner in ("adamw", "dsgdm"):
        method, alone = composed(inner), bg.algorithm(inner)
        assert method.decoupled_decay == alone.decoupled_decay
        moved, _ = method.move(x, g, method.init(x), 0.1, None, 0.3)
        assert np.array_equal(moved, alone.move(x, g, alone.init(x), 0.1, None, 0.3)[0])


def test_begins_again_from_trained_models():
    x = np.random.default_rng(0).standard_normal((4, D))
    method = composed("d2-published")
    assert np.array_equal(method.state(x, 0).descent, -x)
    assert np.array_equal(method.state(x, 9).descent, 0 * x)
    assert np.array_equal(method.state(x, 9).anchor, x)


@pytest.mark.parametrize("inner", ["dsgdm", "adamw"])
def test_stability_is_that_of_the_outer_steps(inner):
    t = bg.topology("base", n=6)
    assert stability(composed(inner), t, local_steps=4).stable
    unstable = stability(composed(inner, "d2", 1.0), t, local_steps=4)
    assert not unstable.stable
    assert unstable.steps == 4 * t.period
    assert unstable.radius == pytest.approx(stability(bg.algorithm("d2"), t).radius, rel=1e-6)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: composed(lr=0.0), r"outer_lr=0\.0: must be a number above 0"),
        (lambda: composed("allreduce-sgd"), "algorithm='allreduce-sgd': averages at every step"),
        (
            lambda: with_outer(composed(), bg.algorithm("dsgdm")),
            r"algorithm='adamw\+dsgdm': has an outer method already",
        ),
        (
            lambda: with_outer(bg.algorithm("dsgd"), composed()),
            r"outer='adamw\+dsgdm': has an outer method already",
        ),
        (lambda: composed("adamw:mix_moments=true"), "adamw:mix_moments=true': is about mixing"),
        (
            lambda: composed("adamw:order=combine-then-adapt"),
            "algorithm='adamw:order=combine-then-adapt': is about mixing",
        ),
        (lambda: composed("d2:damping=0.5"), "algorithm='d2:damping=0.5': is about mixing"),
        (lambda: composed("dsgdm-ceca"), "algorithm='dsgdm-ceca': keeps two vectors per node"),
        (lambda: composed(outer="dsgd-ceca"), "outer='dsgd-ceca': keeps two vectors per node"),
        (lambda: bg.RunConfig(outer="dsgd-ceca"), "outer='dsgd-ceca': keeps two vectors per node"),
        (lambda: bg.RunConfig(outer="dsgdmm"), "outer='dsgdmm': did you mean 'dsgdm'"),
        (
            lambda: bg.RunConfig(outer="dsgdm:momentum=2"),
            r"^outer='dsgdm:momentum=2': momentum=2\.0: must be a number in \[0, 1\)",
        ),
        (
            lambda: bg.RunConfig(outer="dsgdm:nesterov=1"),
            "^outer='dsgdm:nesterov=1': nesterov=1: must be True or False",
        ),
        (lambda: bg.RunConfig(outer="dsgdm", outer_lr=0), r"outer_lr=0\.0: must be a number above"),
        (lambda: bg.RunConfig(outer_lr=0.5), r"outer_lr=0\.5: needs outer"),
    ],
)
def test_refused(make, complaint):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        make()
