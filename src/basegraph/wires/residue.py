"""Sums without a loss: what rounding leaves out of x stays beside it, and goes into the next sum.

Where messages are rounded, nodes that agree as far as messages can tell go on moving by the same
small amounts, round after round, and the rounding of x + d repeats, too: over ten thousand rounds
the average over nodes would move ten thousand times as far as in one.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor


def add_with_residue(
    x: Tensor, ways: Iterable[Tensor], residue: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Add to x, with what was left out before: x + Σ ways + residue = moved + left.

    The ways are added one by one, as both ends of each have the same one with opposite signs. Only
    sums of what was left out are rounded, which are 2^24 times smaller than x.

    Args:
        x: Where the nodes are.
        ways: How far they move, towards each neighbor; they may be overwritten.
        residue: What was left out the last time; None at first.

    Returns:
        The sum, and what is left out now.

    Example:
        >>> import torch
        >>> moved, left = add_with_residue(torch.tensor(1.0), [torch.tensor(1e-8)], None)
        >>> moved.item(), f"{left.item():.0e}"
        (1.0, '1e-08')

    """
    moved, left = x, residue
    for way in ways:
        moved, lost = _two_sum(moved, way)
        left = lost if left is None else lost.add_(left)
    if left is None:
        return moved, x * 0
    return _two_sum(moved, left)


def _two_sum(x: Tensor, way: Tensor) -> tuple[Tensor, Tensor]:
    """The rounded sum, and what rounding has left out of it, exactly (Knuth)."""
    moved = x + way
    added = moved - x
    return moved, (x - (moved - added)).add_(way - added)
