"""What a round means for each node, as arrays of equal width."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from basegraph.topologies.core.round import FloatArray, IntArray, Round


class Peers(NamedTuple):
    """Whom every node hears: (n, k) peers and weights; the self weight is what remains to 1.

    A node that hears fewer than k others hears itself with weight zero for the rest.
    """

    peers: IntArray
    weights: FloatArray


def peers_of(r: Round) -> Peers:
    """Whom every node hears in a round, k being the most that any node hears (at least 1).

    Example:
        >>> from basegraph.topologies.catalog import topology
        >>> peers_of(topology("one-peer-exponential", n=4)[0]).peers.tolist()
        [[3], [0], [1], [2]]

    """
    heard = np.bincount(r.receivers, minlength=r.n)
    width = max(1, int(heard.max()))
    slot = np.arange(len(r.receivers)) - np.repeat(np.cumsum(heard) - heard, heard)
    peers = np.repeat(np.arange(r.n)[:, None], width, axis=1)
    weights = np.zeros((r.n, width))
    peers[r.receivers, slot] = r.senders
    weights[r.receivers, slot] = r.weights
    return Peers(peers, weights)
