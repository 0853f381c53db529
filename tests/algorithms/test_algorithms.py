"""Methods on quadratics with a known solution: what theory says must come out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import basegraph as bg
from basegraph.algorithms.catalog import algorithm
from basegraph.algorithms.method import damped
from support.quadratics import D, Quadratics, error, mixes, run


@pytest.mark.parametrize(
    "name", ["d2", "gradient-tracking", "exact-diffusion", "momentum-tracking"]
)
def test_corrected_methods_reach_the_exact_minimiser(name):
    problem, t = Quadratics(9), bg.topology("ring", n=9)
    assert error(run(algorithm(name), problem, mixes(t), 6000, lr=0.02), problem) < 1e-9


@pytest.mark.parametrize("name", ["gradient-tracking", "momentum-tracking"])
def test_tracking_is_exact_on_changing_graphs(name):
    problem, t = Quadratics(7), bg.topology("base", n=7)
    assert error(run(algorithm(name), problem, mixes(t), 6000, lr=0.01), problem) < 1e-9


def test_damped_d2_is_exact_on_a_finite_time_sequence():
    from basegraph.algorithms._stability import largest_stable_damping

    problem, t = Quadratics(25), bg.topology("base", n=25)
    share = largest_stable_damping(t)
    assert 0.1 < share < 0.3
    x = run(algorithm("d2", damping=share), problem, mixes(t), 6000, lr=0.02)
    assert error(x, problem) < 1e-9
    wild = run(algorithm("d2"), problem, mixes(t), 300, lr=0.02)
    assert not np.isfinite(wild).all() or error(wild, problem) > 1e6


@pytest.mark.parametrize("name", ["dsgd", "dsgdm", "qg-dsgdm", "sgp", "decentlam"])
def test_the_others_stop_at_a_bias_that_shrinks_with_the_step(name):
    problem, t = Quadratics(9), bg.topology("ring", n=9)
    far, near = (
        error(run(algorithm(name), problem, mixes(t), int(40 / lr), lr=lr), problem)
        for lr in (0.02, 0.005)
    )
    assert 1e-4 < near < 0.6 * far


def test_allreduce_is_exact():
    problem = Quadratics(5)
    assert error(run(algorithm("allreduce-sgd"), problem, None, 3000), problem) < 1e-12


def test_d2_published_is_the_published_program():
    """Its statements, on torch tensors that share memory as they do there."""
    draws = torch.Generator().manual_seed(0)
    p, old_p, old_grad = torch.randn(5, D, generator=draws), torch.zeros(5, D), torch.zeros(5, D)
    w = torch.tensor(bg.topology("ring", n=5)[0].matrix().toarray(), dtype=torch.float32)
    method = algorithm("d2-published")
    x, state = p.clone(), method.init(p)
    for lr in (0.1, 0.1, 0.05):
        grad = torch.randn(5, D, generator=draws)
        p.data = 2 * p - old_p - lr * grad - old_grad
        old_p.data = p.data
        old_grad.data = lr * grad
        p.data.copy_(w @ p.data)
        x, state = method.step(x, grad, state, lr, lambda v: w @ v)
        assert torch.allclose(x, p, atol=1e-5, rtol=0)


def test_qg_dsgdm_published_is_the_published_program():
    """Its statements: the correction is taken after the gradient step, and divided by β."""
    draws = torch.Generator().manual_seed(0)
    p, hat_momentum, beta = torch.randn(5, D, generator=draws), torch.zeros(5, D), 0.9
    w = torch.tensor(bg.topology("ring", n=5)[0].matrix().toarray(), dtype=torch.float32)
    method = algorithm("qg-dsgdm-published", momentum=beta)
    x, state = p.clone(), method.init(p)
    for lr in (0.1, 0.1, 0.05):
        grad = torch.randn(5, D, generator=draws)
        p = p - lr * (grad + beta * hat_momentum)
        d = p * 1.0
        p = w @ p
        hat_momentum = beta * hat_momentum + (1 - beta) * ((d - p) / beta)
        x, state = method.step(x, grad, state, lr, lambda v: w @ v)
        assert torch.allclose(x, p, atol=1e-5, rtol=0)


def test_d2_published_does_not_double_trained_models():
    method = algorithm("d2-published")
    x = np.ones((1, 1))
    fresh, _ = method.step(x, 0 * x, method.state(x, 0), 0.1, lambda v: v)
    again, _ = method.step(x, 0 * x, method.state(x, 7), 0.1, lambda v: v)
    assert (fresh.item(), again.item()) == (2, 1)


def test_d2_takes_every_gradient_with_its_own_step_size():
    method = algorithm("d2")
    x0, g0, g1 = np.ones((1, 1)), np.full((1, 1), 2.0), np.full((1, 1), 3.0)
    x1, state = method.step(x0, g0, method.init(x0), 0.1, lambda v: v)
    x2, _ = method.step(x1, g1, state, 0.01, lambda v: v)
    assert x2[0, 0] == pytest.approx(2 * x1[0, 0] - x0[0, 0] - 0.01 * 3 + 0.1 * 2)


@pytest.mark.parametrize("name", ["dsgdm", "qg-dsgdm", "allreduce-sgd"])
def test_nesterov(name):
    plain, ahead = algorithm(name), algorithm(name, nesterov=True)
    x, g = np.zeros((1, 1)), np.ones((1, 1))
    one, _ = plain.step(x, g, plain.init(x), 0.1, lambda v: v)
    two, _ = ahead.step(x, g, ahead.init(x), 0.1, lambda v: v)
    assert one[0, 0] == pytest.approx(-0.1)
    assert two[0, 0] == pytest.approx(-0.1 * (1 + 0.9))


def test_push_sum_corrects_a_merely_column_stochastic_round():
    """Node 0 sends half of what it holds to node 1, which sends nothing: averages need w."""
    push = np.array([[0.5, 0.25], [0.5, 0.75]])
    method = algorithm("sgp")
    x = np.array([[4.0], [0.0]])
    state = method.init(x)
    for _ in range(60):
        x, state = method.step(x, 0 * x, state, 0.1, lambda v: push @ v)
    assert np.allclose(method.gradient_point(x, state), 2.0)


def test_push_sum_is_dsgd_on_every_round_that_can_be_built():
    """Rows of a round sum to one by construction, even where its columns do not."""
    lopsided = bg.Round.from_arcs(3, {(0, 1): Fraction(1, 4), (1, 2): Fraction(1, 2)})
    rounds = [lopsided, *(bg.topology(name, n=6)[0] for name in ("exponential", "base"))]
    for r in rounds:
        matrix = r.matrix().toarray()
        problem = Quadratics(r.n)
        push, plain = (
            run(algorithm(name), problem, lambda step, w=matrix: lambda v: w @ v, 20)
            for name in ("sgp", "dsgd")
        )
        assert np.allclose(push, plain, rtol=1e-12)


def test_damped():
    assert damped(lambda v: 0 * v, 0.25)(np.array([4.0])) == 3.0


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("dsdg", {}, "algorithm='dsdg': did you mean 'dsgd'"),
        ("dsgdm", {"beta": 0.9}, "option of dsgdm='beta'"),
        ("dsgdm", {"momentum": 1.0}, r"momentum=1.0: must be a number in \[0, 1\)"),
        ("dsgdm", {"momentum": "0.9"}, r"momentum='0.9': must be a number"),
        ("dsgdm", {"nesterov": 1}, "nesterov=1: must be True or False"),
        ("d2", {"damping": 0}, r"damping=0: must be a number in \(0, 1\]"),
        ("d2:damping=2", {}, r"damping=2.0: must be a number in \(0, 1\]"),
        ("d2:damping=auto", {}, "damping='auto': must be a number"),
        ("dsgdm:momentum", {}, "algorithm='dsgdm:momentum': options are written"),
        ("dsgdm:beta=1", {}, "option of dsgdm='beta': not known. Known: momentum, nesterov"),
        ("dsgdm:momentum=0.5", {"momentum": 0.9}, "momentum=0.9: is given in the spec"),
    ],
)
def test_bad_options(name, options, complaint):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        algorithm(name, **options)


@pytest.mark.parametrize("betas", [(0.9, 0.0), (0.0, 0.0), (0.0, 0.999), (0.9, 0.999)])
@pytest.mark.parametrize("name", ["adamw", "allreduce-adamw"])
def test_adamw_is_torchs_where_gradients_shrink_by_orders_of_magnitude(name, betas):
    """Each step from zero, so that its own size is compared; in float32, as runs have it."""
    parameter = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.AdamW([parameter], lr=0.1, betas=betas, weight_decay=0.0)
    method = algorithm(name, beta1=betas[0], beta2=betas[1])
    state = method.init(torch.zeros(1, 3))
    for size in (1e-1, 1e-5, 1e-6, 1e-6, 1e-1):
        gradient = size * torch.tensor([1.0, -2.0, 0.3])
        parameter.data.zero_()
        parameter.grad = gradient.clone()
        optimizer.step()
        x, state = method.move(torch.zeros(1, 3), gradient[None], state, 0.1, lambda v: v)
        torch.testing.assert_close(x[0], parameter.data, rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("name", ["adamw", "allreduce-adamw"])
def test_adamw_without_memory_keeps_moments_of_its_own(name):
    """An engine writes the next gradient where this one is."""
    method = algorithm(name, beta1=0.0, beta2=0.0)
    gradient = np.array([[1e-5, 3.0]])
    _, state = method.move(
        np.zeros((1, 2)), gradient, method.init(np.zeros((1, 2))), 0.1, lambda v: v
    )
    assert np.array_equal(state.first, gradient)
    assert np.array_equal(state.second, gradient**2)
    assert not any(np.shares_memory(part, gradient) for part in state)
