"""Local steps with an outer optimizer: DiLoCo (Douillard et al. 2023) and its gossip form.

A node makes local steps of an inner method, which mix nothing. A step that communicates then makes
a step of an outer method from the anchor a, where the last such step has led, along what came of
the local steps, Δ = a - x, as if that were a gradient. That step mixes; x becomes the new anchor.
"""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

import numpy as np

from basegraph.algorithms.catalog import ALGORITHMS
from basegraph.algorithms.method import Array, Method, Mix, State, at_x
from basegraph.algorithms.options import above_zero
from basegraph.errors import InvalidArgument
from basegraph.specs import parse
from basegraph.topologies.two_states.sequence import TWO_VECTORS

OUTER_LR = 0.7
"""The outer learning rate of DiLoCo, with Nesterov's momentum 0.9."""


def with_outer(inner: Method, outer: Method, lr: float = OUTER_LR) -> Method:
    """Local steps of one method, and steps of another on what came of them.

    x ← inner(x, g) at every step; where nodes communicate, then Δ = a - x; a ← outer(a, Δ); x ← a.
    With `allreduce-sgd:momentum=0.9,nesterov=true` as the outer method this is DiLoCo. With `dsgdm`
    it is DiLoCo, too, where mix is the exact average: all nodes have one anchor a, so
    a⁺ = mean(a - η(βu + Δ)) = a - η(βū + Δ̄), and the mean ū of the momenta u ← βu + Δ is βū + Δ̄.
    Over other rounds it is the gossip form of DiLoCo, with one vector per round.

    The learning rate of a step is the inner method's, and so is weight decay.

    Args:
        inner: The method of local steps; it must not be centralized.
        outer: The method of the anchor, any of the catalogue with one vector per node.
        lr: The outer learning rate, which stays as it is.

    Returns:
        The composed method; its state is the inner one's, the anchor, and the outer one's.

    Raises:
        InvalidArgument: If the inner method communicates by itself or has an option about how it
            does, one of them keeps two vectors per node, or the learning rate is not above 0.

    Example:
        >>> from basegraph.algorithms.catalog import algorithm
        >>> diloco = with_outer(algorithm("adamw"), algorithm("dsgdm:nesterov=true"), lr=0.7)
        >>> diloco.name, diloco.slow
        ('adamw+dsgdm', ('anchor', 'outer_momentum'))

    """
    above_zero(outer_lr=lr)
    if inner.centralized:
        raise InvalidArgument(
            "algorithm", inner.name, "averages at every step: it has no local steps"
        )
    outer = outer_method(outer)
    if inner.outer is not None:
        raise InvalidArgument("algorithm", inner.name, "has an outer method already")
    for option in inner.mixing_options:
        raise InvalidArgument(
            "algorithm",
            f"{inner.name}:{option}",
            f"is about mixing: with an outer method only that one's steps mix; use {inner.name}",
        )
    if inner.vectors == 2:
        raise InvalidArgument(
            "algorithm",
            inner.name,
            f"keeps {TWO_VECTORS}: local steps with an outer method have one, as dsgdm",
        )
    of_inner, of_outer = _state_kind(inner), _state_kind(outer)
    slow = ("anchor", *(f"outer_{name}" for name in of_outer._fields))
    composed = _state_type((*of_inner._fields, *slow))
    split = len(of_inner._fields)

    def state_of(x: Array, step: int) -> State:
        return composed(*inner.state(x, step), x, *outer.state(x, step))

    def local_step(
        x: Array, grad: Array, state: State, inner_lr: Any, mix: Mix, decay: Any = 0.0
    ) -> tuple[Array, State]:
        x, moved = inner.move(x, grad, of_inner(*state[:split]), inner_lr, None, decay)
        return x, composed(*moved, *state[split:])

    def step(
        x: Array, grad: Array, state: State, inner_lr: Any, mix: Mix, decay: Any = 0.0
    ) -> tuple[Array, State]:
        x, moved = inner.move(x, grad, of_inner(*state[:split]), inner_lr, None, decay)
        anchor, outer_state = state[split], of_outer(*state[split + 1 :])
        way = outer.gradient_point(anchor, outer_state) - x
        anchor, outer_state = outer.step(anchor, way, outer_state, lr, mix)
        x = 1 * outer.gradient_point(anchor, outer_state)  # in memory of its own
        return x, composed(*moved, anchor, *outer_state)

    def gradient_point(x: Array, state: State) -> Array:
        return inner.gradient_point(x, of_inner(*state[:split]))

    return Method(
        f"{inner.name}+{outer.name}",
        lambda x: state_of(x, 0),
        step,
        messages=outer.messages,
        gradient_point=at_x if inner.gradient_point is at_x else gradient_point,
        centralized=outer.centralized,
        linear=inner.linear and outer.linear,
        decoupled_decay=inner.decoupled_decay,
        local_step=local_step,
        slow=slow,
        outer=outer,
        restart=lambda x: state_of(x, 1),
        keeps_state=inner.keeps_state and outer.keeps_state,
    )


def outer_method(spec: str | Method) -> Method:
    """The method that the spec of an outer optimizer names.

    Args:
        spec: `name` or `name:option=value,...`, as for `algorithm`; or a method.

    Raises:
        InvalidArgument: If there is no such method or option, a value is not accepted, or the
            method keeps two vectors per node.

    Example:
        >>> outer_method("dsgdm:momentum=0.8").spec
        'dsgdm:momentum=0.8,nesterov=false'

    """
    if isinstance(spec, Method):
        if spec.outer is not None:
            raise InvalidArgument("outer", spec.name, "has an outer method already")
        return _with_one_vector(spec)
    name, options = parse("outer", spec, ALGORITHMS)
    try:
        outer = ALGORITHMS[name](**options)
    except InvalidArgument as error:  # an option, which the inner method may have by that name, too
        raise InvalidArgument("outer", spec, str(error)) from None
    return _with_one_vector(outer)


def _with_one_vector(outer: Method) -> Method:
    """The outer method, refused if its anchor would be two vectors: a node has one model."""
    if outer.vectors == 2:
        raise InvalidArgument(
            "outer", outer.name, f"keeps {TWO_VECTORS}: an outer method has one, as dsgdm"
        )
    return outer


def _state_kind(method: Method) -> Any:
    """The NamedTuple class of a method's state."""
    try:
        return type(method.init(np.zeros((1, 1))))
    except (AttributeError, TypeError) as error:
        raise InvalidArgument(
            "algorithm", method.name, f"init must take numpy arrays, too: {error}"
        ) from None


@cache
def _state_type(fields: tuple[str, ...]) -> Any:
    """A NamedTuple class with these fields, the same one for the same fields."""
    return namedtuple("WithOuter", fields)
