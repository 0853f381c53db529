"""The vectors of a method, x and its state, by the names they have in checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STATE = "state."
"""What the names of the state's vectors begin with; x is called x."""


def by_name(x: Any, state: Any) -> dict[str, Any]:
    """Name x and the vectors of a state.

    Args:
        x: The parameters.
        state: The method's state, a NamedTuple.

    Returns:
        The same vectors, not copied: x first, then the state's in their order.

    Example:
        >>> from basegraph.algorithms.catalog import algorithm
        >>> by_name(3.0, algorithm("dsgdm").init(3.0))
        {'x': 3.0, 'state.momentum': 0.0}

    """
    return {"x": x, **{STATE + name: part for name, part in state._asdict().items()}}


def from_names(vectors: Mapping[str, Any], kind: type[Any]) -> tuple[Any, Any]:
    """Undo `by_name`.

    Args:
        vectors: What `by_name` returned.
        kind: The NamedTuple class of the state.

    Returns:
        (x, state).

    """
    return vectors["x"], kind(*(vectors[STATE + name] for name in kind._fields))
