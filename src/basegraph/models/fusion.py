"""Which layers of a network are made in one pass: a normalization with what is around it.

Normalization is followed by ReLU, and ReLU by pooling; or by the addition of a shortcut and then
ReLU; or it comes after ReLU and pooling. The bias of the convolution before it is added by it.
Layers whose results are taken elsewhere, too, are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn

from basegraph.models import kernels
from basegraph.models.stacked_layers import (
    Normalization,
    PooledNormalization,
    add,
    convolution,
    group_norm,
    max_pool,
    normalization,
    relu,
    relu_pool_norm,
)


class LayerCall(NamedTuple):
    """One layer, and what it is called with."""

    form: Callable[..., Tensor]
    layer: Any
    """A module or, for layers made in one pass, several of them."""
    names: dict[str, str]
    """The layer's parameters: name in the layer -> name in the module."""
    arguments: tuple[int, ...]
    """Which results it takes: 0 is the network's input, i + 1 what call i returns."""


def fused(calls: list[LayerCall]) -> list[LayerCall]:
    """The same calls, those that can be made in one pass as one.

    Args:
        calls: In an order in which they can be made; the last one's result is the network's.

    """
    users: list[list[int]] = [[] for _ in range(len(calls) + 1)]
    for number, call in enumerate(calls):
        for argument in call.arguments:
            users[argument].append(number)
    gone: set[int] = set()
    new = dict(enumerate(calls))

    def only_user(number: int, form: Callable[..., Tensor]) -> int | None:
        """Who takes the result, if it is one call of this form and no other."""
        taken_by = users[number + 1]
        one = len(taken_by) == 1 and calls[taken_by[0]].form is form and taken_by[0] not in gone
        return taken_by[0] if one else None

    def only_source(number: int, form: Callable[..., Tensor]) -> int | None:
        """Where the only argument comes from, if from a call of this form for no other."""
        source = calls[number].arguments[0] - 1
        one = source >= 0 and calls[source].form is form and len(users[source + 1]) == 1
        return source if one and source not in gone else None

    for number, norm in enumerate(calls):
        if norm.form is not group_norm:
            continue
        layers, last = Normalization(norm.layer), number
        names, arguments = norm.names, norm.arguments
        added = only_user(number, add)
        rectified = only_user(number if added is None else added, relu)
        pooling = only_source(number, max_pool)
        pooled_relu = None if pooling is None else only_source(pooling, relu)
        if added is not None and rectified is not None:
            other = next(a for a in calls[added].arguments if a != number + 1)
            arguments, last = (*arguments, other), rectified
            layers = layers._replace(rectifies=True)
            gone |= {number, added}
        elif added is None and rectified is not None:
            layers, last = layers._replace(rectifies=True), rectified
            gone.add(number)
            pool = only_user(rectified, max_pool)
            if pool is not None:
                layers, last = layers._replace(pool=calls[pool].layer), pool
                gone.add(rectified)
        elif pooling is not None and pooled_relu is not None:
            gone |= {pooled_relu, pooling}
            pair = PooledNormalization(calls[pooling].layer, norm.layer)
            taken = calls[pooled_relu].arguments
            new[number] = LayerCall(relu_pool_norm, pair, norm.names, taken)
            continue
        before = only_source(number, convolution)
        if before is not None and _leaves_bias(calls[before].layer):
            kept = dict(calls[before].names)
            names = {**names, "shift": kept.pop("bias")}
            new[before] = calls[before]._replace(names=kept)
        new[last] = LayerCall(normalization, layers, names, arguments)
    return _renumbered({number: new[number] for number in sorted(new.keys() - gone)})


def _leaves_bias(layer: nn.Conv2d) -> bool:
    """Whether adding the bias takes a pass of its own: small convolutions have it for nothing."""
    small = layer.stride == (1, 1) and layer.weight.numel() <= kernels.SMALL_FILTER
    return layer.bias is not None and not small


def _renumbered(calls: dict[int, LayerCall]) -> list[LayerCall]:
    """Calls by their former numbers, as a list."""
    place = {0: 0} | {number + 1: i + 1 for i, number in enumerate(calls)}
    return [
        call._replace(arguments=tuple(place[a] for a in call.arguments)) for call in calls.values()
    ]
