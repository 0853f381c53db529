"""Sums without a loss: what rounding leaves out of x stays beside it, and goes into the next sum.

Where messages are rounded, nodes that agree as far as messages can tell go on moving by the same
small amounts, round after round, and the rounding of x + d repeats, too: over ten thousand rounds
the average over nodes would move ten thousand times as far as in one.
"""

from __future__ import annotations

from torch import Tensor


def add_with_residue(x: Tensor, way: Tensor, residue: Tensor | None) -> tuple[Tensor, Tensor]:
    """Add to x, with what was left out before: x + way + residue = moved + left, exactly.

    (Knuth's two-sum; way + residue itself is rounded, at its own, much smaller size.)

    Args:
        x: Where the nodes are.
        way: How far they move; it may be overwritten.
        residue: What was left out the last time; None at first.

    Returns:
        The sum, and what is left out now.

    Example:
        >>> import torch
        >>> moved, left = add_with_residue(torch.tensor(1.0), torch.tensor(1e-8), None)
        >>> moved.item(), f"{left.item():.0e}"
        (1.0, '1e-08')

    """
    if residue is not None:
        way = way.add_(residue)
    moved = x + way
    added = moved - x
    left = (x - (moved - added)).add_(way.sub_(added))
    return moved, left
