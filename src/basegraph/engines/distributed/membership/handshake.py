"""Nodes compare their settings at the start, and set things up together or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

import torch

from basegraph.engines.distributed.collectives import all_gather
from basegraph.engines.distributed.membership.contract import Membership
from basegraph.errors import BasegraphError

T = TypeVar("T")
DIGEST = 16
"""Bytes of a fact's digest."""
HANDSHAKE = "the handshake"
"""What messages about lost nodes call the comparison."""


def require_alike(facts: dict[str, object], membership: Membership) -> None:
    """Refuse nodes whose settings differ from node 0's. All nodes must call it.

    Args:
        facts: The settings by name; compared by digests of their `repr`.
        membership: Who the nodes are.

    Raises:
        BasegraphError: At every node; names the node and the setting that differs.

    """
    from basegraph import __version__

    whole = {**facts, "basegraph": __version__, "torch": torch.__version__}
    digests = [hashlib.sha256(repr(value).encode()).digest()[:DIGEST] for value in whole.values()]
    # A name that is missing elsewhere would shift the others, so the names have a digest too.
    digests.insert(0, hashlib.sha256(repr(list(whole)).encode()).digest()[:DIGEST])
    mine = torch.frombuffer(bytearray(b"".join(digests)), dtype=torch.uint8).to(membership.device)
    # The number of facts first: what follows must be equally long everywhere.
    counts = all_gather(torch.tensor([len(mine)], device=membership.device), membership, HANDSHAKE)
    for node, count in enumerate(counts):
        if count != counts[0]:
            raise BasegraphError(f"node {node} runs another version of basegraph than node 0")
    everyone = [bytes(row.cpu().tolist()) for row in all_gather(mine, membership, HANDSHAKE)]
    names = ["names", *whole]
    for node, theirs in enumerate(everyone):
        for place, name in enumerate(names):
            here = slice(place * DIGEST, (place + 1) * DIGEST)
            if theirs[here] != everyone[0][here]:
                own = ""
                if node == membership.node and name in whole:
                    own = f"; here it is {str(whole[name])[:80]}"
                raise BasegraphError(f"node {node} differs from node 0 in {name!r}{own}")


def require_same_bits(v: torch.Tensor, membership: Membership, phase: str) -> None:
    """Refuse a vector that is not the same everywhere, to the last bit."""
    node = first_other(v, membership, phase)
    if node is not None:
        raise BasegraphError(f"node {node} holds another vector than node 0 after {phase}")


def first_other(v: torch.Tensor, membership: Membership, phase: str) -> int | None:
    """The first node whose vector has other bits than node 0's, by a checksum; None: all agree."""
    sums = all_gather(_sum_of_words(v).reshape(1), membership, phase)
    return next((node for node, total in enumerate(sums) if total != sums[0]), None)


def bits_of(v: torch.Tensor) -> int:
    """A checksum of a vector's bits."""
    return int(_sum_of_words(v))


def _sum_of_words(v: torch.Tensor) -> torch.Tensor:
    words = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    real = torch.view_as_real(v) if v.is_complex() else v
    return real.view(words[real.element_size()]).sum(dtype=torch.int64)


class Refused(BasegraphError):
    """A node could not be set up; all nodes raise this, and node 0 reports it for all."""

    reported_by = 0


def together(work: Callable[[], T], membership: Membership, phase: str = "set-up") -> T:
    """Call a function at every node; if it fails at one, all nodes are refused.

    Args:
        work: What to call; may raise `BasegraphError` or `OSError`.
        membership: Who the nodes are.
        phase: What this is for, to say so where a node is lost.

    Returns:
        What the function has returned here.

    Raises:
        Refused: At every node, with the message of the first node that failed.

    """
    done: list[T] = []
    problem = ""
    try:
        done.append(work())
    except (BasegraphError, OSError) as error:
        problem = str(error) or type(error).__name__
    everyone = texts_of_all(problem, membership, phase)
    for node, said in enumerate(everyone):
        if said:
            raise Refused(said if node == 0 else f"node {node}: {said}")
    return done[0]


def texts_of_all(text: str, membership: Membership, phase: str = "set-up") -> list[str]:
    """Gather a text of every node, at every node.

    `torch.distributed.all_gather_object` is not used: it unpickles what other processes send, waits
    as long as the process group says, and does not name a node that is lost.
    """
    own, device = text.encode(), membership.device
    lengths = all_gather(torch.tensor([len(own)], device=device), membership, phase)
    counts = [int(length) for length in lengths]
    padded = bytearray(own.ljust(max(1, *counts), b"\0"))
    message = torch.frombuffer(padded, dtype=torch.uint8).to(device)
    rows = all_gather(message, membership, phase)
    return [
        bytes(row.cpu().tolist())[:count].decode() for row, count in zip(rows, counts, strict=True)
    ]
