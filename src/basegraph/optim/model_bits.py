"""Which model a state_dict was taken with, so that a resumed job can tell it from another.

Scripts load the model on every node, as each had saved its own, or on rank 0 alone, as with DDP,
whose constructor sends it to the others. Only in the first case the first broadcast has to be
undone when the optimizer's state is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from basegraph.engines.distributed.local_shards import is_sharded
from basegraph.engines.distributed.membership.handshake import bits_of
from basegraph.engines.distributed.node import Node

BITS = "model_bits"
"""The key of the checksum in a group of a state_dict."""


def with_bits(state: dict[str, Any], node: Node) -> dict[str, Any]:
    """The state with a checksum of the node's model in every group, where a node is a process."""
    if node.membership.n == 1 or any(map(is_sharded, node.flat.parameters)):
        return state
    bits = bits_of(node.x_d)
    return {**state, "param_groups": [{**group, BITS: bits} for group in state["param_groups"]]}


def without_bits(state: Mapping[str, Any]) -> tuple[dict[str, Any], int | None]:
    """The state as it was, and the checksum; None if it has none."""
    groups = state.get("param_groups") or []
    bits = next((group[BITS] for group in groups if BITS in group), None)
    if bits is None:
        return dict(state), None
    stripped = [{k: v for k, v in group.items() if k != BITS} for group in groups]
    return {**state, "param_groups": stripped}, int(bits)
