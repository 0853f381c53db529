from __future__ import annotations

import numpy as np
import pytest

import basegraph as bg
from basegraph.algorithms._stability import (
    Unstable,
    largest_stable_damping,
    require_stable,
    stability,
)
from basegraph.algorithms.catalog import ALGORITHMS, algorithm
from support.quadratics import topology_of


@pytest.mark.parametrize(
    ("n", "k", "radius", "lazy"),
    [
        (25, 1, 10.2, 3.16),
        (25, 2, 5.1, 1.55),
        (25, 3, 4.5, 1.04),
        (25, 4, 1.0, 0.71),
        (16, 1, 3, 0.71),
    ],
)
def test_d2_on_base_graphs(n, k, radius, lazy):
    t = bg.topology("base", n=n, k=k)
    assert stability(algorithm("d2"), t).radius == pytest.approx(radius, abs=0.05)
    assert stability(algorithm("d2", damping=0.5), t).radius == pytest.approx(lazy, abs=0.005)


@pytest.mark.parametrize("n", [9, 60, 250])
def test_radius_is_what_the_iteration_does(n):
    """Iterate x⁺ = W_t (2x - x₋) from a random start and compare the growth."""
    t = bg.topology("base", n=n)
    matrices = [r.matrix() for r in t]
    x = np.random.default_rng(0).standard_normal(n)
    x -= x.mean()
    before, norms = x, []
    for period in range(40):
        for w in matrices:
            x, before = w @ (2 * x - before), x
        scale = np.hypot(np.linalg.norm(x), np.linalg.norm(before))
        x, before = x / scale, before / scale
        if period >= 20:
            norms.append(scale)
    growth = np.exp(np.mean(np.log(norms)))
    assert stability(algorithm("d2"), t).radius == pytest.approx(growth, rel=0.1)


@pytest.mark.parametrize("name", ["dsgd", "dsgdm", "qg-dsgdm", "gradient-tracking", "sgp"])
@pytest.mark.parametrize("spec", ["base:k=1", "one-peer-exponential", "ring", "one-peer-u-equidyn"])
def test_the_robust_methods_are_stable_everywhere(name, spec):
    require_stable(algorithm(name), bg.topology(spec, n=21))


def test_static_symmetric_methods_are_stable_on_static_symmetric_graphs():
    for name in ("d2", "exact-diffusion", "decentlam"):
        require_stable(algorithm(name), bg.topology("ring", n=25))


@pytest.mark.parametrize(
    ("spec", "damping"),
    [("base", "0.1"), ("base:k=2", "0.2"), ("exponential", None), ("one-peer-exponential", None)],
)
def test_refusal_names_stable_choices_only(spec, damping):
    t = bg.topology(spec, n=25)
    with pytest.raises(Unstable) as refusal:
        require_stable(algorithm("d2"), t)
    message = str(refusal.value)
    assert message.startswith(f"d2 is unstable on {t.spec} with n=25: ")
    assert "--" not in message  # arguments of functions, no flags
    choices = message.partition("Stable choices: ")[2].partition(". ")[0].split(", ")
    assert ("damping" in message) == (damping is not None)
    for choice in choices:
        name, _, option = choice.partition(" with damping=")
        assert stability(
            algorithm(name, **({"damping": float(option)} if option else {})), t
        ).stable
    assert [choice for choice in choices if "damping" in choice] == (
        [f"d2 with damping={damping}"] if damping else []
    )


def test_no_damping_may_be_stable():
    with pytest.raises(Unstable, match=r"for any damping ≥ 0\.01\. Stable choices: gradient-track"):
        largest_stable_damping(bg.topology("exponential", n=25))


def test_damping_is_the_largest_stable_one():
    t = bg.topology("base", n=25)
    share = largest_stable_damping(t)
    assert stability(algorithm("d2", damping=share), t).stable
    assert not stability(algorithm("d2", damping=share + 0.01), t).stable


def test_local_steps_count():
    t = bg.topology("base", n=6)
    assert stability(algorithm("dsgd"), t, local_steps=3).stable
    assert stability(algorithm("dsgd"), t, local_steps=3).steps == 12
    assert not stability(algorithm("d2"), t, local_steps=3).stable


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_one_node_is_always_stable(name):
    assert stability(algorithm(name), topology_of(algorithm(name), "base", 1)).stable


@pytest.mark.parametrize("n", [2, 5, 6, 25])
def test_two_vectors_per_node_are_stable(n):
    t = bg.topology("ceca", n=n)
    assert stability(algorithm("dsgd-ceca"), t).radius < 1e-4  # nothing is left but rounding
    verdict = stability(algorithm("dsgdm-ceca"), t, local_steps=2)
    assert verdict.steps == 2 * t.period
    assert verdict.radius == pytest.approx(0.9**verdict.steps, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "spec", "complaint"),
    [
        ("dsgdm", "ceca", "topology='ceca': keeps two vectors .* short:k=1; dsgd-ceca and dsgdm-"),
        ("dsgd-ceca", "ring", "algorithm='dsgd-ceca': keeps two .* topology ceca instead of ring"),
    ],
)
def test_methods_and_topologies_must_keep_as_many_vectors(name, spec, complaint):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        require_stable(algorithm(name), bg.topology(spec, n=5))


@pytest.mark.parametrize("name", ["dsgdm", "d2", "gradient-tracking"])
def test_local_steps_are_so_many_steps_without_a_message(name):
    method, t, local_steps = algorithm(name), bg.topology("base", n=6), 5
    kind = type(method.init(np.zeros((6, 1))))
    size = 6 * (1 + len(kind._fields))
    blocks = np.eye(size).reshape(-1, 6, size)
    blocks = blocks - blocks.mean(axis=1, keepdims=True)
    for w in [r.matrix() for r in t]:
        for mix in [lambda v: v] * (local_steps - 1) + [w.__matmul__]:
            x, state = method.step(blocks[0], 0 * blocks[0], kind(*blocks[1:]), 1.0, mix)
            blocks = np.stack([x, *state])
    radius = np.abs(np.linalg.eigvals(blocks.reshape(size, size))).max()
    assert stability(method, t, local_steps).radius == pytest.approx(radius, rel=1e-6, abs=1e-6)


def test_ten_million_local_steps_cost_no_more_than_two():
    t = bg.topology("base", n=25)
    verdict = stability(algorithm("dsgdm"), t, 10**7)
    assert verdict.stable
    assert verdict.steps == 10**7 * t.period
    with pytest.raises(Unstable, match="d2 is unstable"):
        require_stable(algorithm("d2"), t, 2**62)
