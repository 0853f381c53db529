"""Copies of a round on more nodes: side by side, or interleaved."""

from __future__ import annotations

import numpy as np

from basegraph.topologies.core.round import Round


def tiled(r: Round, copies: int) -> Round:
    """Copies side by side: node i of copy c becomes node c * n + i.

    Args:
        r: A round of n nodes.
        copies: How many.

    Returns:
        A round of copies * n nodes.

    Example:
        >>> from fractions import Fraction
        >>> pair = Round.from_edges(2, {(0, 1): Fraction(1, 2)})
        >>> tiled(pair, 2).neighbors(2)
        {3: Fraction(1, 2)}

    """
    shift = (np.arange(copies) * r.n)[:, None]
    return Round(
        r.n * copies,
        (shift + r.receivers).ravel(),
        (shift + r.senders).ravel(),
        np.tile(r.numerators, copies),
        np.tile(r.denominators, copies),
        np.tile(r.origins, copies),
    )


def spread(r: Round, copies: int) -> Round:
    """Copies interleaved: node i of copy c becomes node i * copies + c.

    Args:
        r: A round of n nodes.
        copies: How many.

    Returns:
        A round of copies * n nodes.

    Example:
        >>> from fractions import Fraction
        >>> pair = Round.from_edges(2, {(0, 1): Fraction(1, 2)})
        >>> spread(pair, 2).neighbors(1)
        {3: Fraction(1, 2)}

    """
    heard = np.bincount(r.receivers, minlength=r.n)
    first = np.cumsum(heard) - heard
    heard, first = np.repeat(heard, copies), np.repeat(first, copies)
    receivers = np.repeat(np.arange(r.n * copies), heard)
    arc = np.arange(len(receivers)) - np.repeat(np.cumsum(heard) - heard - first, heard)
    return Round(
        r.n * copies,
        receivers,
        r.senders[arc] * copies + receivers % copies,
        r.numerators[arc],
        r.denominators[arc],
        r.origins[arc],
    )
