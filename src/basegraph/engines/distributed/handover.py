"""A node's model, state and step, handed to a node that has come: over the group, checksummed."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor

from basegraph.engines.distributed.membership.contract import Membership

HEADER_TAG, CONTENT_TAG = 6001, 6002
"""Tags of these messages."""
DIGEST = 32
"""Bytes of the checksum."""


def hand_over(content: dict[str, Any], receivers: list[int], membership: Membership) -> None:
    """Send tensors and numbers to some nodes.

    Args:
        content: What `torch.load` takes with `weights_only`.
        receivers: The nodes.
        membership: Who the nodes are.

    Raises:
        PeerLost: One of them did not take it.

    """
    file = io.BytesIO()
    torch.save(content, file)
    whole = file.getbuffer()
    digest = hashlib.sha256(whole).digest()
    header = torch.frombuffer(bytearray(len(whole).to_bytes(8, "big") + digest), dtype=torch.uint8)
    message = torch.frombuffer(whole, dtype=torch.uint8)
    send = membership.group.send
    for node in receivers:
        _complete(send, header, node, HEADER_TAG, membership)
        _complete(send, message, node, CONTENT_TAG, membership)


def take_over(source: int, membership: Membership) -> dict[str, Any]:
    """Receive what a node hands over.

    Raises:
        PeerLost: The node has died meanwhile, or what came is not what was sent.

    """
    header = torch.empty(8 + DIGEST, dtype=torch.uint8)
    receive = membership.group.recv
    _complete(receive, header, source, HEADER_TAG, membership)
    raw = bytes(header.tolist())
    message = torch.empty(int.from_bytes(raw[:8], "big"), dtype=torch.uint8)
    _complete(receive, message, source, CONTENT_TAG, membership)
    data = message.numpy().data
    if hashlib.sha256(data).digest() != raw[8:]:
        raise membership.progress.peer_lost(
            source, "the hand-over", RuntimeError("the checksum is wrong"), 0.0
        )
    content: dict[str, Any] = torch.load(io.BytesIO(data), weights_only=True)
    return content


def _complete(
    post: Callable[[list[Tensor], int, int], Any],
    message: Tensor,
    peer: int,
    tag: int,
    membership: Membership,
) -> None:
    started = time.monotonic()
    try:
        with membership.waiting():
            if not post([message], peer, tag).wait(timedelta(seconds=membership.timeout)):
                raise RuntimeError("timed out")
    except RuntimeError as error:
        waited = time.monotonic() - started
        raise membership.progress.peer_lost(peer, "the hand-over", error, waited) from None
