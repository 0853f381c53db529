"""A method of one's own is tried out before it trains: what engines rely on is said in one line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch

import basegraph as bg
from basegraph.algorithms import Method, with_outer
from basegraph.engines.own_method import require_sound
from support.single import single_node


class Kept(NamedTuple):
    u: torch.Tensor


class Other(NamedTuple):
    u: torch.Tensor


def init(x):
    return Kept(0 * x)


def plain(x, grad, state, lr, mix):
    return mix(x - lr * grad), Kept(state.u + grad)


@pytest.mark.parametrize("name", list(bg.ALGORITHMS))
def test_every_method_of_the_catalogue_is_sound(name):
    method = bg.algorithm(name)
    require_sound(method)
    if not method.centralized and method.vectors == 1:
        require_sound(with_outer(method, bg.algorithm("dsgdm:nesterov=true")))


def two(x, grad, state, lr, mix):
    return mix(x - lr * grad), Kept(mix(state.u + grad))


def test_a_method_with_two_messages_says_so():
    require_sound(Method("two", init, two, messages=2))
    with pytest.raises(bg.InvalidArgument, match="mixes 2 vectors in a step, and says messages=1"):
        require_sound(Method("two", init, two))
    with pytest.raises(bg.InvalidArgument, match="mixes 1 vectors in a step, and says messages=2"):
        require_sound(Method("plain", init, plain, messages=2))


@pytest.mark.parametrize(
    ("start", "step", "complaint"),
    [
        (lambda x: (0 * x,), plain, "init must return a NamedTuple of tensors"),
        (lambda x: {"u": 0 * x}, plain, "init must return a NamedTuple of tensors"),
        (lambda x: None, plain, "init must return a NamedTuple of tensors"),
        (lambda x: Kept(3), plain, "init must return a NamedTuple of tensors"),
        (init, lambda x, g, s, lr, mix: mix(x - lr * g), "step must return x and the state"),
        (init, lambda x, g, s, lr, mix: (s, mix(x - lr * g)), "step must return x, a tensor"),
        (init, lambda x, g, s, lr, mix: (mix(x).numpy(), s), "step must return x, a tensor"),
        (init, lambda x, g, s, lr, mix: (mix(x), Other(s.u)), "a state of the kind that init"),
        (init, lambda x, g, s, lr, mix: (mix(x), Kept(1)), "step must return a NamedTuple"),
        (init, lambda x, g, s, lr, mix: (mix(x - np.ones(7)), s), "fails on tensors of 3 nodes: "),
        (init, lambda x, g, s, lr: (x, s), "fails on tensors of 3 nodes: "),
        (init, lambda x, g, s, lr, mix: (mix(x - lr * g / g.norm()), s), "combines nodes"),
    ],
)
def test_what_engines_cannot_take_is_one_line(start, step, complaint, tmp_path):
    method = Method("mine", start, step, linear=False)
    with pytest.raises(bg.InvalidArgument, match=f"^algorithm='mine': .*{complaint}"):
        bg.train(bg.RunConfig(nodes=5, epochs=1), tmp_path / "run", algorithm=method)
    with single_node(), pytest.raises(bg.InvalidArgument, match=complaint):
        bg.DecentralizedOptimizer([torch.nn.Parameter(torch.zeros(3))], method, lr=0.1)
