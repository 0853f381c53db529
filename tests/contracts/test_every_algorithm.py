"""One set of properties over all algorithms: a new one joins by its catalogue line."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import basegraph as bg
from basegraph.algorithms import no_mix
from basegraph.topologies.two_states import PairRule
from support.quadratics import D, Quadratics, average, mixes, run, topology_of

NOT_CENTRALIZED = {"d2-published"}
"""It begins by doubling x and takes gradients twice, as published code does."""
OVERSHOOTS = {"d2", "exact-diffusion", "decentlam", "qg-dsgdm-published"}
"""Without gradients they do not only mix: they extrapolate, or keep a momentum of the mixing."""
NONLINEAR = {"adamw"}
"""A node divides by what its own gradients were, so the mean does not follow a mean gradient."""
ADAM = {"adamw", "allreduce-adamw"}
WRONG = {
    bool: (1, 0.5, "true", None),
    float: ("0.9", None, True, float("nan"), -1, 2),
    str: ("adapt", "", 1, None),
}
"""By type of an option: what none may accept. Numbers are shares, of momentum or damping; but..."""
ACCEPTED = {("eps", 2)}


@pytest.fixture(params=sorted(bg.ALGORITHMS))
def name(request):
    return request.param


@pytest.fixture
def method(name):
    return bg.algorithm(name)


@pytest.fixture
def random():
    return np.random.default_rng(0)


def randomly_filled(state, random):
    """Above zero, as second moments are."""
    return type(state)(*(np.abs(random.standard_normal(part.shape)) for part in state))


class Recorded:
    """A mix that remembers what was sent and what it returned."""

    def __init__(self, mix):
        self.mix, self.given, self.returned = mix, [], []

    def __call__(self, sent, *other):
        self.given.append(sent)
        self.returned.append(self.mix(sent, *other))
        return self.returned[-1]


def a_round(method, n=4, array=np.asarray):
    """A ring; with two vectors per node, which change places, the node before is heard."""
    if method.vectors == 2:
        rule, before = PairRule(None, 0.5, 2 / 3, True), [(i - 1) % n for i in range(n)]
        return lambda v, w: rule(v, w, v[before])
    matrix = array(bg.topology("ring", n=n)[0].matrix().toarray())
    return lambda v: matrix @ v


def row_of(mixed, i):
    """Node i's part of what a mix returned, one array or two."""
    return tuple(part[i] for part in mixed) if isinstance(mixed, tuple) else mixed[i]


def test_has_a_one_line_description(name):
    assert 20 < len(bg.ALGORITHMS[name].description) < 100


def test_the_state_is_a_named_tuple_that_keeps_its_shape(method, random):
    x, g = random.standard_normal((2, 4, D))
    for step in (0, 9):
        state = method.state(x, step)
        _, after = method.step(x, g, state, 0.1, a_round(method))
        assert type(after) is type(state) is type(method.init(x))
        assert len(state) == len(type(state)._fields)
        for part, new in zip(state, after, strict=True):
            assert part.shape == new.shape
            assert part.shape[:-1] == x.shape[:-1]  # what a node remembers is its own


def test_a_step_changes_nothing_that_it_was_given(method, random):
    x, g = random.standard_normal((2, 4, D))
    state = randomly_filled(method.init(x), random)
    kept = [part.copy() for part in (x, g, *state)]
    method.step(x, g, state, 0.1, a_round(method))
    assert all(map(np.array_equal, (x, g, *state), kept))


def test_numpy_and_torch_give_the_same(method, random):
    x = random.standard_normal((4, D))
    state, tensor = method.init(x), torch.tensor(x)
    tensor_state, mix = method.init(tensor), a_round(method, array=torch.tensor)
    for g in random.standard_normal((3, 4, D)):
        x, state = method.step(x, g, state, 0.1, a_round(method))
        tensor, tensor_state = method.step(tensor, torch.tensor(g), tensor_state, 0.1, mix)
        for one, other in zip((x, *state), (tensor, *tensor_state), strict=True):
            assert np.allclose(one, other.numpy(), rtol=0, atol=1e-12)


def test_a_node_of_its_own_computes_its_row(method, random):
    """(d,) with what `mix` returned to node i gives row i of (n, d), and sends row i."""
    n = 4
    x = random.standard_normal((n, D))
    state = method.init(x)
    own = [(row, method.init(row)) for row in x]
    for g in random.standard_normal((3, n, D)):
        mix = Recorded(a_round(method, n))
        x, state = method.step(x, g, state, 0.1, mix)
        for i, (row, row_state) in enumerate(own):
            received = iter([row_of(mixed, i) for mixed in mix.returned])
            row_mix = Recorded(lambda *sent, received=received: next(received))
            own[i] = method.step(row, g[i], row_state, 0.1, row_mix)
            assert row.shape == (D,)
            assert all(
                np.allclose(sent, all_rows[i], rtol=0, atol=1e-12)
                for sent, all_rows in zip(row_mix.given, mix.given, strict=True)
            )
            for mine, part in zip((own[i][0], *own[i][1]), (x, *state), strict=True):
                assert np.allclose(mine, part[i], rtol=0, atol=1e-12)


def test_messages_are_what_it_sends(method, random):
    x = random.standard_normal((4, D))
    mix = Recorded(a_round(method))
    method.step(x, x, method.init(x), 0.1, mix)
    assert sum(v.shape == x.shape for v in mix.given) == method.messages


def test_ends_with_mix_where_it_says_so(method, random):
    """x⁺ is the very array that `mix` returned, and the new state would be the same without it."""
    x, g = random.standard_normal((2, 4, D))
    state = randomly_filled(method.init(x), random)
    mix = Recorded(a_round(method))
    after, mixed_state = method.step(x, g, state, 0.1, mix)
    _, own_state = method.step(x, g, state, 0.1, no_mix(method))
    returned = any(after is v for v in mix.returned)
    independent = all(map(np.array_equal, mixed_state, own_state))
    assert method.ends_with_mix == (returned and independent)


def test_takes_either_order_where_it_says_so(method, random):
    """x⁺ is mix(x - ηd) or mix(x) - ηd, where neither d nor the state knows mix or x itself."""
    x, g = random.standard_normal((2, 4, D))
    begun, begun_elsewhere = method.init(x), method.init(x + 1)
    state = randomly_filled(begun, random)
    mix, alone = a_round(method), no_mix(method)
    after, mixed_state = method.step(x, g, state, 0.1, mix)
    descended, own_state = method.step(x, g, state, 0.1, alone)
    moved, moved_state = method.step(x + 1, g, state, 0.1, alone)
    takes = method.vectors == 1 and not method.centralized
    takes = takes and np.allclose(moved, descended + 1)
    takes = takes and any(np.allclose(after, v) for v in (mix(descended), mix(x) + descended - x))
    takes = takes and all(map(np.allclose, mixed_state, own_state))
    takes = takes and all(map(np.allclose, moved_state, own_state))
    takes = takes and all(map(np.allclose, begun, begun_elsewhere))
    assert method.either_order == takes


def test_linear_where_it_says_so(method, random):
    """A step without gradients, and what is evaluated after it, as a function of (x, state)."""

    def after(x, *state):
        x, state = method.step(x, 0 * x, kind(*state), 0.1, a_round(method))
        return [method.gradient_point(x, state), *state]

    x = np.zeros((4, D))
    kind = type(method.init(x))
    one, other = (
        [random.standard_normal(x.shape), *randomly_filled(method.init(x), random)]
        for _ in range(2)
    )
    combined = after(*(2 * a + 3 * b for a, b in zip(one, other, strict=True)))
    apart = [2 * a + 3 * b for a, b in zip(after(*one), after(*other), strict=True)]
    assert method.linear == all(map(np.allclose, combined, apart))


def test_gradients_are_first_taken_at_x_itself(method, random):
    x = random.standard_normal((4, D))
    for step in (0, 9):
        assert np.array_equal(method.gradient_point(x, method.state(x, step)), x)


def test_weight_decay_is_in_the_gradient_or_decoupled(method, random):
    """`move` with λ is a step with λ times the parameters more in the gradient; or it is a step
    that takes ηλx from x beside what the gradient takes, inside the mix or after it."""
    x, g = random.standard_normal((2, 4, D))
    state, decay = method.init(x), random.random((1, D))
    (moved, *after), (plain, *other) = (
        method.move(x, g, state, 0.1, a_round(method), decay),
        method.move(x, g, state, 0.1, a_round(method)),
    )
    if method.decoupled_decay:
        pulled = 0.1 * decay * x
        mixed = a_round(method)(pulled) if method.ends_with_mix else pulled
        assert np.allclose(moved, plain - mixed, rtol=0, atol=1e-12)
        assert all(map(np.array_equal, after[0], other[0]))
    else:
        expected, _ = method.step(x, g + decay * x, state, 0.1, a_round(method))
        assert np.array_equal(moved, expected)
        assert not np.allclose(moved, plain)


def test_a_step_alone_mixes_nothing(method, random):
    x, g = random.standard_normal((2, 4, D))
    state = randomly_filled(method.init(x), random)
    alone, after = method.move(x, g, state, 0.1, None)
    for i in range(4):
        own = type(state)(*(part[i] for part in state))
        row, row_after = method.step(x[i], g[i], own, 0.1, no_mix(method))
        for mine, part in zip((row, *row_after), (alone, *after), strict=True):
            assert np.allclose(mine, part[i], rtol=0, atol=1e-12)


def test_nodes_that_agree_stay_where_no_gradient_moves_them(method, random):
    point = random.standard_normal(D)
    x = np.tile(point, (4, 1))
    state = method.state(x, 9)
    for lr in (0.1, 0.0, 0.3):
        x, state = method.step(x, 0 * x, state, lr, a_round(method))
        assert np.allclose(method.gradient_point(x, state), point, rtol=0, atol=1e-12)


def centralized(name, x, gradients, rates):
    """x after each step of (momentum) SGD or Adam, as one node computes it."""
    if name in ADAM:
        yield from adam(x, gradients, rates)
        return
    plain = name == "qg-dsgdm-published" or "momentum" not in bg.ALGORITHMS[name].options
    beta = 0.0 if plain else 0.9
    u = m = descent = 0 * x
    if name == "d2-published":
        descent = -x
    for gradient, lr in zip(gradients, rates, strict=True):
        g = gradient(x) if callable(gradient) else gradient
        if name == "qg-dsgdm":  # m follows what x has moved: nothing, if lr is 0
            u = beta * m + g
            m = beta * m + (1 - beta) * u * (lr > 0)
            x = x - lr * u
        elif name == "d2-published":
            x, descent = x - lr * g - descent, lr * g
        else:
            u = beta * u + (0 * g if name == "decentlam" and lr == 0 else g)
            x = x - lr * u
        yield x


def adam(x, gradients, rates):
    """As Kingma and Ba write it."""
    m = v = 0 * x
    for step, (gradient, lr) in enumerate(zip(gradients, rates, strict=True), 1):
        g = gradient(x) if callable(gradient) else gradient
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        x = x - lr * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
        yield x


def test_one_node_is_the_centralized_form(name, method):
    """With one node, every method is (momentum) SGD or Adam, step for step."""
    problem = Quadratics(1)
    expected = list(centralized(name, np.zeros((1, D)), [problem.gradients] * 30, [0.05] * 30))
    for steps in (1, 2, 7, 30):
        x = run(method, problem, lambda step: no_mix(method), steps)
        assert np.allclose(x, expected[steps - 1], rtol=1e-9, atol=1e-12)


def test_learning_rates_may_change_and_be_zero(name, method, random):
    """The average over the nodes follows the centralized form; a rate of 0 takes no gradient.

    That of a method which is not linear does so where all nodes have the same gradient.
    """
    n, rates = 5, [0.1, 0.0, 0.05, 0.0, 0.2]
    x = random.standard_normal((n, D))
    gradients = random.standard_normal((len(rates), n, D))
    if name in NONLINEAR:
        gradients[:] = gradients[:, :1]
    means = centralized(name, x.mean(axis=0), gradients.mean(axis=1), rates)
    state, mix_at = method.init(x), mixes(topology_of(method, "base", n))
    for step, (g, lr, mean) in enumerate(zip(gradients, rates, means, strict=True)):
        mix = average if method.centralized else mix_at(step)
        before = x, state
        x, state = method.step(x, g, state, lr, mix)
        assert np.allclose(x.mean(axis=0), mean, rtol=0, atol=1e-12)
        if lr == 0:
            x_of_other_gradient, _ = method.step(before[0], -7 * g, before[1], lr, mix)
            assert np.array_equal(x, x_of_other_gradient)


@pytest.mark.parametrize(
    "name", sorted(set(bg.ALGORITHMS) - NOT_CENTRALIZED - NONLINEAR), indirect=True
)
def test_complete_graph_is_the_centralized_form(name, method):
    """With equal curvature, the average over nodes follows (momentum) SGD on the mean objective;
    methods that mix last have every node there."""
    problem, t = Quadratics(6, same_curvature=True), topology_of(method, "complete", 6)
    center = Quadratics(1)
    center.h = problem.h[:1]
    center.b = problem.solution[None]
    for steps in (1, 2, 5, 25):
        x = run(method, problem, mixes(t), steps)
        expected = run(method, center, lambda step: no_mix(method), steps)
        assert np.allclose(x.mean(axis=0), expected[0], rtol=1e-9, atol=1e-12)
        alike = method.ends_with_mix or method.centralized
        if alike or name in ("qg-dsgdm", "d2", "sgp", "decentlam"):
            assert np.allclose(x, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", sorted(set(bg.ALGORITHMS) - OVERSHOOTS), indirect=True)
@pytest.mark.parametrize("n", [5, 6, 25])
def test_nodes_agree_after_a_period_without_gradients(name, n):
    t = topology_of(bg.algorithm(name), "base", n)
    x0 = np.random.default_rng(1).standard_normal((n, D))
    flat = Quadratics(n)
    flat.h = np.zeros_like(flat.h)
    # Quasi-global momentum follows the nodes' own motion, mixing included: it overshoots.
    options = {"momentum": 0.0} if name == "qg-dsgdm" else {}
    x = run(bg.algorithm(name, **options), flat, mixes(t), t.period, x0=x0)
    if bg.algorithm(name).centralized:  # averages gradients: without any, nothing moves
        assert np.array_equal(x, x0)
    else:
        factor = 2 if name == "d2-published" else 1  # it begins by doubling x
        assert np.abs(x - factor * x0.mean(axis=0)).max() < 1e-13


def test_wrong_options_are_refused_by_name(name):
    for option, default in bg.ALGORITHMS[name].options.items():
        for value in WRONG[type(default)]:
            if (option, value) in ACCEPTED:
                continue
            with pytest.raises(bg.InvalidArgument, match=f"{option}=.*must be"):
                bg.algorithm(name, **{option: value})
    with pytest.raises(bg.InvalidArgument, match=f"option of {name}='optoin'"):
        bg.algorithm(name, optoin=1)


def test_options_in_the_spec_are_options(name, random):
    x, g = random.standard_normal((2, 4, D))
    written = {
        bool: ("true", True),
        float: ("0.5", 0.5),
        str: ("combine-then-adapt", "combine-then-adapt"),
    }
    for option, default in bg.ALGORITHMS[name].options.items():
        text, value = written[type(default)]
        results = []
        for method in (
            bg.algorithm(name),
            bg.algorithm(name, **{option: value}),
            bg.algorithm(f"{name}:{option}={text}"),
        ):
            state = randomly_filled(method.init(x), np.random.default_rng(1))
            moved, state = method.step(x, g, state, 0.1, a_round(method))
            results.append(method.step(moved, g, state, 0.1, a_round(method))[0])
        assert np.array_equal(results[1], results[2])
        assert not np.allclose(results[0], results[1])  # and it does something
