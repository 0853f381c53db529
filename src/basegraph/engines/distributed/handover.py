"""A node's model, state and step, handed to a node that has come: over the group, checksummed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor

from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.packing import empty_like, pack, unpack

HEADER_TAG, TEXT_TAG, TENSOR_TAG = 6001, 6002, 6003
"""Tags of these messages."""
DIGEST = 32
"""Bytes of the checksum."""


def hand_over(content: dict[str, Any], receivers: list[int], membership: Membership) -> None:
    """Send tensors, numbers and texts to some nodes; tensors go as they lie in memory.

    Args:
        content: What `pack` takes.
        receivers: The nodes.
        membership: Who the nodes are.

    Raises:
        PeerLost: One of them did not take it.

    """
    text, tensors = pack(content)
    encoded = text.encode()
    digest = _digest(encoded, tensors)
    header = len(encoded).to_bytes(8, "big") + digest
    messages = [(HEADER_TAG, _bytes(header)), (TEXT_TAG, _bytes(encoded))]
    messages += [(TENSOR_TAG, _flat(t)) for t in tensors if t.numel()]
    for node in receivers:
        for tag, message in messages:
            _complete(membership.group.send, message, node, tag, membership)


def take_over(source: int, membership: Membership) -> dict[str, Any]:
    """Receive what a node hands over.

    Raises:
        PeerLost: The node has died meanwhile, or what came is not what was sent.

    """

    def receive(message: Tensor, tag: int) -> bytes:
        _complete(membership.group.recv, message, source, tag, membership)
        return message.numpy().tobytes() if tag != TENSOR_TAG else b""

    header = receive(torch.empty(8 + DIGEST, dtype=torch.uint8), HEADER_TAG)
    length = int.from_bytes(header[:8], "big")
    encoded = receive(torch.empty(length, dtype=torch.uint8), TEXT_TAG)
    tensors = empty_like(encoded.decode())
    for tensor in tensors:
        if tensor.numel():
            receive(_flat(tensor), TENSOR_TAG)
    if _digest(encoded, tensors) != header[8:]:
        raise membership.progress.peer_lost(
            source, "the hand-over", RuntimeError("the checksum is wrong"), 0.0
        )
    content: dict[str, Any] = unpack(encoded.decode(), tensors)
    return content


def _digest(text: bytes, tensors: list[Tensor]) -> bytes:
    checksum = hashlib.sha256(text)
    for tensor in tensors:
        checksum.update(_flat(tensor).numpy().data)
    return checksum.digest()


def _flat(tensor: Tensor) -> Tensor:
    """The same memory as bytes."""
    return tensor.reshape(-1).view(torch.uint8)


def _bytes(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _complete(
    post: Callable[[list[Tensor], int, int], Any],
    message: Tensor,
    peer: int,
    tag: int,
    membership: Membership,
) -> None:
    started, timeout = time.monotonic(), timedelta(seconds=membership.timeout)
    try:
        if not membership.wait(lambda: post([message], peer, tag).wait(timeout)):
            raise RuntimeError("timed out")
    except RuntimeError as error:
        waited = time.monotonic() - started
        raise membership.progress.peer_lost(peer, "the hand-over", error, waited) from None
