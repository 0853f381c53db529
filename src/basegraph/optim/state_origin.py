"""Where a state_dict comes from: from which model, and from which node if it is tied to one.

Scripts load the model on every node, as each had saved its own, or on rank 0 alone, as with DDP,
whose constructor sends it to the others. Only in the first case the first broadcast has to be
undone when the optimizer's state is loaded; a checksum of the model tells them apart.

Some scripts save the optimizer's state on rank 0 alone, too, and load it everywhere. Trackers of
one node on all nodes would lead them all astray, forever and without a sign. So a state that is
tied to its node says which one that is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from basegraph.engines.distributed.local_shards import is_sharded
from basegraph.engines.distributed.membership.handshake import bits_of
from basegraph.engines.distributed.membership.live import LiveMembership
from basegraph.engines.distributed.node import Node
from basegraph.errors import InvalidArgument

BITS = "model_bits"
"""The key of the checksum in a group of a state_dict."""
NODE = "only_of_node"
"""The key of the node there."""


class Origin(NamedTuple):
    """What a state_dict says of where it was taken; None: nothing."""

    bits: int | None
    """A checksum of the node's model."""
    node: str | None
    """The node, "2 of 8", whose state no other node can go on with."""


def with_origin(state: dict[str, Any], node: Node, *, tied: bool) -> dict[str, Any]:
    """The state with its origin in every group.

    Args:
        state: A state_dict.
        node: Whose it is.
        tied: Whether no other node can go on with it.

    """
    known: dict[str, Any] = {}
    if node.membership.n > 1 and not any(map(is_sharded, node.flat.parameters)):
        known[BITS] = bits_of(node.x_d)
    if tied and not isinstance(node.membership, LiveMembership):  # whose nodes join and leave
        known[NODE] = _name(node)
    return {**state, "param_groups": [{**group, **known} for group in state["param_groups"]]}


def without_origin(state: Mapping[str, Any]) -> tuple[dict[str, Any], Origin]:
    """The state as it was, and where it was taken."""
    groups = state.get("param_groups") or []
    said = {key: group[key] for group in groups for key in (BITS, NODE) if key in group}
    stripped = [{k: v for k, v in group.items() if k not in said} for group in groups]
    origin = Origin(int(said[BITS]) if BITS in said else None, said.get(NODE))
    return ({**state, "param_groups": stripped} if said else dict(state)), origin


def require_own(origin: Origin, node: Node, method: str) -> None:
    """Refuse a state that is tied to another node, or to other nodes.

    Raises:
        InvalidArgument: It is.

    """
    here = _name(node)
    if origin.node not in (None, here) and not isinstance(node.membership, LiveMembership):
        raise InvalidArgument(
            "state_dict",
            f"of node {origin.node}",
            f"is loaded on node {here}; a state of {method} is tied to its node: save one on every "
            "node, or one for all of them inside `with optimizer.averaged():`",
        )


def _name(node: Node) -> str:
    return f"{node.membership.node} of {node.membership.n}"
