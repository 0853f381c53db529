"""Who holds what: the Dirichlet partition (Hsu et al. 2019), a domain per node, or all alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from basegraph.data.dataset import Labels
from basegraph.errors import InvalidArgument
from basegraph.topologies.core.integers import at_least
from basegraph.topologies.core.random import generator, philox
from basegraph.topologies.core.round import FloatArray, IntArray

SPLITS = ("dirichlet", "iid", "domains")
SPLIT_ORDERS = ("shuffled", "by-class")
_PARTITION, _HOLD_OUT, _NODES, _SAMPLE, _IID = 1, 2, 5, 6, 7
"""Streams of the seed: what is drawn for one purpose does not change with another."""


def hold_out(count: int, share: float, seed: int) -> tuple[IntArray, IntArray]:
    """Hold out a random share of the samples for validation.

    Args:
        count: The number of samples.
        share: The share to hold out, in [0, 1). Above 0 it is one sample at least, where there are
            several.
        seed: The same seed holds out the same samples.

    Returns:
        Numbers of samples, ascending: (validation, rest).

    """
    cut = _held_out(count, share)
    order = _shuffled(count, seed, _HOLD_OUT, 0)
    return np.sort(order[:cut]), np.sort(order[cut:])


def require_samples(nodes: int, count: int, validation: float) -> None:
    """Refuse more nodes than samples are left to train on, before anything is built for them."""
    _samples_per_node(count - _held_out(count, validation), nodes)


def require_domains(nodes: int, labels: Labels, rest: IntArray | None = None) -> None:
    """Refuse more nodes than domains where each domain is for one node.

    Args:
        nodes: The number of nodes.
        labels: The domains of all samples.
        rest: Numbers of the samples that are not held out; None: that is not known yet.

    Raises:
        InvalidArgument: If there are too few domains, or too few with samples to train on.

    """
    count = len(np.unique(labels))
    if count < nodes:
        raise InvalidArgument(
            "nodes", nodes, f"must be at most the {count} domains, one for each node"
        )
    left = count if rest is None else len(np.unique(labels[rest]))
    if left < nodes:
        raise InvalidArgument(
            "nodes",
            nodes,
            f"must be at most {left}: of the {count} domains {count - left} would have no sample "
            "to train on, all of theirs being held out for validation; give validation=0, or "
            "domains with more samples",
        )


def sample(count: int, size: int, seed: int, part: int) -> IntArray:
    """`size` of the numbers below `count`, or all, in ascending order; smaller ones are nested.

    Every `part` is drawn by itself.
    """
    if size >= count:
        return np.arange(count)
    return np.sort(_shuffled(count, seed, _SAMPLE, part)[:size])


def dirichlet(
    labels: Labels, nodes: int, alpha: float, seed: int, order: str = "shuffled"
) -> IntArray:
    """Split samples over nodes by Dirichlet shares of every class, equally many per node.

    For each class the shares of the nodes are drawn from Dir(α). Nodes that get too many give up
    some, keeping their proportions; nodes that get too few take from what was given up, one class
    after another, so that they too hold few classes. All nodes are drawn at once.

    Taking class after class gives similar classes to nodes with nearby numbers, which are neighbors
    in a ring or a torus. So the seed decides which node holds which share ("shuffled"); the order
    "by-class" leaves the shares where they were filled.

    Args:
        labels: The labels of all samples.
        nodes: The number of nodes.
        alpha: α of the Dirichlet distribution: the smaller, the fewer classes a node holds.
        seed: The same seed gives the same split.
        order: "shuffled" or "by-class".

    Returns:
        (nodes, m) numbers of samples: who holds which, m = len(labels) // nodes.

    Raises:
        InvalidArgument: Of alpha, order, or more nodes than samples.

    """
    check_order(order)
    nodes = at_least(1, nodes=nodes)
    if not alpha >= 1e-300 or not np.isfinite(alpha):
        raise InvalidArgument("alpha", alpha, "must be a number above 0")
    size = _samples_per_node(len(labels), nodes)
    random = generator(seed, _PARTITION)
    kinds = np.unique(labels)
    given: list[list[IntArray]] = [[] for _ in range(nodes)]
    for kind in kinds:
        own = np.flatnonzero(labels == kind)
        own = own[_shuffled(len(own), seed, _PARTITION, int(kind))]
        shares = _dirichlet(random, alpha, nodes)
        for node, part in enumerate(np.split(own, np.cumsum(_apportion(shares, len(own)))[:-1])):
            given[node].append(part)
    kept, pool = _trim(given, size)
    shares_of_nodes = _fill(kept, pool, size)
    if order == "by-class":
        return shares_of_nodes
    return shares_of_nodes[_shuffled(nodes, seed, _NODES, 0)]


def split(
    labels: Labels, nodes: int, how: str, *, alpha: float, seed: int, order: str = "shuffled"
) -> IntArray:
    """Split samples over nodes in one of the ways of `SPLITS`.

    Args:
        labels: The labels, or domains, of all samples.
        nodes: The number of nodes.
        how: "dirichlet", "iid" or "domains".
        alpha: α of the Dirichlet distribution.
        seed: The same seed gives the same split.
        order: "shuffled" or "by-class": which node holds which share.

    Returns:
        (nodes, m) numbers of samples, as `dirichlet`, `iid` and `by_domain` give them.

    Raises:
        InvalidArgument: Of alpha, order, or too many nodes.

    """
    if how == "iid":
        return iid(len(labels), nodes, seed)
    if how == "domains":
        return by_domain(labels, nodes, seed, order)
    return dirichlet(labels, nodes, alpha, seed, order)


def iid(count: int, nodes: int, seed: int) -> IntArray:
    """Split samples over nodes at random, equally many per node.

    Args:
        count: The number of samples.
        nodes: The number of nodes.
        seed: The same seed gives the same split.

    Returns:
        (nodes, m) numbers of samples, m = count // nodes.

    Raises:
        InvalidArgument: More nodes than samples.

    """
    size = _samples_per_node(count, at_least(1, nodes=nodes))
    return _shuffled(count, seed, _IID, 0)[: nodes * size].reshape(nodes, size)


def by_domain(labels: Labels, nodes: int, seed: int, order: str = "shuffled") -> IntArray:
    """Give every domain to one node: domains are dealt to the nodes in turn, like cards.

    Args:
        labels: The domain of every sample.
        nodes: The number of nodes, at most that of domains.
        seed: The same seed gives the same split.
        order: "shuffled": the seed decides which node is dealt to first; "by-class": node 0 is.

    Returns:
        (nodes, m) numbers of samples. m is the number of samples of the node that has most; who has
        fewer goes through them again, so that samples of a smaller domain are there repeatedly.

    Raises:
        InvalidArgument: Of order, or fewer domains than nodes.

    Example:
        >>> by_domain(np.array([0, 0, 0, 1, 2, 2]), nodes=3, seed=0, order="by-class").tolist()
        [[0, 1, 2], [3, 3, 3], [4, 5, 4]]

    """
    check_order(order)
    nodes = at_least(1, nodes=nodes)
    require_domains(nodes, labels)
    kinds = np.unique(labels)
    shares = [np.flatnonzero(np.isin(labels, kinds[first::nodes])) for first in range(nodes)]
    size = max(map(len, shares))
    parts = np.stack([np.resize(share, size) for share in shares])
    return parts if order == "by-class" else parts[_shuffled(nodes, seed, _NODES, 0)]


def check_order(order: str) -> None:
    """Refuse an unknown order of the nodes' shares."""
    if order not in SPLIT_ORDERS:
        raise InvalidArgument("split_order", order, f"must be {' or '.join(SPLIT_ORDERS)}")


def heterogeneity(labels: Labels, parts: IntArray) -> float:
    """Mean total-variation distance of the nodes' label distributions from the global one.

    Args:
        labels: The labels of all samples.
        parts: (nodes, m) numbers of samples, as `dirichlet` gives them.

    Returns:
        0 where all nodes have the same mixture of labels, towards 1 where each has its own.

    """
    classes = int(labels.max()) + 1
    everyone = np.bincount(labels[parts.ravel()], minlength=classes) / parts.size
    own = np.stack([np.bincount(labels[p], minlength=classes) / len(p) for p in parts])
    return float(np.abs(own - everyone).sum(axis=1).mean() / 2)


def _held_out(count: int, share: float) -> int:
    if not 0 <= share < 1:
        raise InvalidArgument("validation", share, "must be a number in [0, 1)")
    return max(int(count * share), 1 if share and count > 1 else 0)


def _samples_per_node(count: int, nodes: int) -> int:
    if nodes > count:
        raise InvalidArgument("nodes", nodes, f"must be at most the {count} training samples")
    return count // nodes


def _dirichlet(random: np.random.Generator, alpha: float, count: int) -> FloatArray:
    """Dir(α) by logarithms: a Gamma(α) is a Gamma(α+1) times U^(1/α), which may underflow."""
    logs = np.log(random.gamma(alpha + 1, size=count)) + np.log(random.random(count)) / alpha
    shares = np.exp(logs - logs.max())
    return shares / shares.sum()


def _apportion(shares: FloatArray, total: int) -> IntArray:
    """Whole numbers that add up to `total`, as near to the shares as whole numbers can be."""
    ideal = shares * total
    counts = np.floor(ideal).astype(np.int64)
    most_short = np.argsort(counts - ideal, kind="stable")[: total - counts.sum()]
    counts[most_short] += 1
    return counts


def _trim(given: list[list[IntArray]], size: int) -> tuple[list[IntArray], IntArray]:
    """What every node keeps (at most `size`, in its own proportions), and what was given up."""
    kept, pool = [], []
    for parts in given:
        counts = np.array([len(part) for part in parts])
        total = int(counts.sum())
        keep = _apportion(counts / total, size) if total > size else counts
        keep = np.minimum(keep, counts)
        kept.append(np.concatenate([part[:k] for part, k in zip(parts, keep, strict=True)]))
        pool.append([part[k:] for part, k in zip(parts, keep, strict=True)])
    by_class = [np.concatenate(rest) for rest in zip(*pool, strict=True)]
    return kept, np.concatenate(by_class)


def _fill(kept: list[IntArray], pool: IntArray, size: int) -> IntArray:
    parts, start = [], 0
    for own in kept:
        take = size - len(own)
        parts.append(np.concatenate([own, pool[start : start + take]]))
        start += take
    return np.stack(parts)


def _shuffled(count: int, seed: int, stream: int, part: int) -> NDArray[np.int64]:
    """A permutation from the generator's raw output, the same in every release of numpy."""
    raw = philox(seed, stream, (0, 0, 0, part + 1)).random_raw(count)
    return np.argsort(raw, kind="stable")
