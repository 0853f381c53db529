"""The arguments `outer` and `outer_lr` of both optimizers."""

from __future__ import annotations

from basegraph.algorithms.method import Method
from basegraph.algorithms.options import above_zero
from basegraph.algorithms.outer import OUTER_LR, outer_method
from basegraph.engines.distributed.options import NodeOptions
from basegraph.errors import InvalidArgument

Outer = tuple[Method, float]
"""The outer method and its learning rate."""


def outer_of(outer: str | Method | None, lr: float | None, options: NodeOptions) -> Outer | None:
    """The outer method that is asked for, and its learning rate.

    Args:
        outer: A spec of the catalogue, a method, or None.
        lr: Its learning rate; DiLoCo's 0.7 if None.
        options: Those of the node, which the outer method must go with.

    Raises:
        InvalidArgument: There is no such method, or the arguments do not go together.

    Example:
        >>> method, lr = outer_of("dsgdm:nesterov=true", None, NodeOptions(local_steps=32))
        >>> method.name, lr
        ('dsgdm', 0.7)

    """
    if outer is None:
        if lr is not None:
            raise InvalidArgument("outer_lr", lr, "needs outer=, a method")
        return None
    if options.overlapped:
        raise InvalidArgument("order", options.order, "is not for an outer optimizer")
    lr = OUTER_LR if lr is None else lr
    if isinstance(lr, bool) or not isinstance(lr, int | float):
        raise InvalidArgument("outer_lr", lr, "must be a number above 0")
    above_zero(outer_lr=lr)
    return outer_method(outer), float(lr)


def outer_facts(outer: Outer | None) -> str | None:
    """What all nodes must have in common of it."""
    return None if outer is None else f"{outer[0].spec or outer[0].name}, lr {outer[1]}"
