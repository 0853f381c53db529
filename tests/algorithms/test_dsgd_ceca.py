"""DSGD with two vectors per node, against its definition written out node by node."""

from __future__ import annotations

import numpy as np
import pytest

import basegraph as bg
from support.quadratics import D, Quadratics, error, mixes, run


def by_definition(problem, steps, lr, beta):
    """(x, y) of all nodes; the digits of n - 1 say what is sent, and where gradients are taken."""
    n = len(problem.b)
    x = y = np.zeros_like(problem.b)
    u = 0.0
    digits = [int(digit) for digit in f"{n - 1:b}"]
    m = 0
    for step in range(steps):
        digit = digits[step % len(digits)]
        m = 0 if step % len(digits) == 0 else m
        u = beta * u + problem.gradients(x if digit else y)
        x, y = x - lr * u, y - lr * u
        if digit:
            heard = x[[(i - m - 1) % n for i in range(n)]]
            x, y = (x + heard) / 2, (m * y + (m + 1) * heard) / (2 * m + 1)
        else:
            heard = y[[(i - m) % n for i in range(n)]]
            x, y = ((m + 1) * x + m * heard) / (2 * m + 1), (y + heard) / 2
        m = 2 * m + digit
    return x, y, digits[steps % len(digits)]


@pytest.mark.parametrize("n", [2, 3, 5, 6, 8, 12, 25])
@pytest.mark.parametrize(("name", "beta"), [("dsgd-ceca", 0.0), ("dsgdm-ceca", 0.9)])
def test_is_its_definition(n, name, beta):
    problem, method, mix_at = Quadratics(n), bg.algorithm(name), mixes(bg.topology("ceca", n=n))
    for steps in (1, 2, 3, 4, 5, 11):
        x, y, digit = by_definition(problem, steps, 0.05, beta)
        ours = run(method, problem, mix_at, steps)
        assert np.allclose(ours, x if digit else y, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [5, 6, 25])
def test_reaches_the_solution_as_far_as_dsgd_does(n):
    """Heterogeneous quadratics leave every method of this kind a bias of the size of η."""
    problem = Quadratics(n)
    ceca, base = (
        run(bg.algorithm(name), problem, mixes(bg.topology(spec, n=n)), 3000, lr=0.01)
        for name, spec in (("dsgd-ceca", "ceca"), ("dsgd", "base"))
    )
    assert error(ceca, problem) < 2 * error(base, problem)
    assert error(ceca, problem) < 0.5


def test_what_was_in_the_other_vector_is_forgotten_in_the_next_period():
    n, method = 6, bg.algorithm("dsgd-ceca")
    mix_at, random = mixes(bg.topology("ceca", n=n)), np.random.default_rng(0)
    x = random.standard_normal((n, D))
    ends = []
    for other in random.standard_normal((2, n, D)):
        v, state = x, type(method.init(x))(other)
        for step in range(3):
            v, state = method.step(v, 0 * v, state, 0.1, mix_at(step))
        ends.append(v)
    assert np.allclose(ends[0], x.mean(axis=0), atol=1e-13)
    assert np.allclose(*ends, atol=1e-13)
