"""Who the nodes of an optimizer are, by its arguments."""

from __future__ import annotations

from typing import Any

from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.membership.fixed import join_nodes
from basegraph.engines.distributed.membership.live import LiveMembership
from basegraph.engines.distributed.options import NodeOptions
from basegraph.errors import InvalidArgument
from basegraph.topologies.two_states.sequence import AnyTopology

MEMBERSHIPS = ("fixed", "live")


def membership_for(
    kind: str,
    lighthouse: str | None,
    group: Any,
    mesh: Any,
    topology: str | AnyTopology,
    options: NodeOptions,
) -> Membership:
    """Join the other nodes, or begin to: those of a live membership meet later.

    Args:
        kind: One of `MEMBERSHIPS`.
        lighthouse: The address of the lighthouse, for a live one.
        group: The process group, for a fixed one.
        mesh: The dimension of a `DeviceMesh`, instead of a group.
        topology: What the optimizer was given; a live membership needs a name.
        options: The options of the node.

    Raises:
        InvalidArgument: There is no such membership, or it does not go with another argument.

    """
    if kind not in MEMBERSHIPS:
        raise InvalidArgument("membership", kind, f"must be one of {', '.join(MEMBERSHIPS)}")
    if mesh is not None:
        group = _group_of(mesh, group, kind)
    if kind == "fixed":
        if lighthouse is not None:
            raise InvalidArgument("lighthouse", lighthouse, 'is for membership="live"')
        return join_nodes(group, options.timeout)
    if not isinstance(topology, str):
        raise InvalidArgument(
            "topology",
            topology.spec,
            'must be a catalogue name with membership="live": it is built anew when nodes come or '
            "go",
        )
    if group is not None:
        raise InvalidArgument("group", group, 'is for membership="fixed"')
    if not options.broadcast:
        raise InvalidArgument(
            "broadcast",
            options.broadcast,
            'with membership="live", a node begins with the model of those that are there',
        )
    return LiveMembership(lighthouse, options.timeout)


def _group_of(mesh: Any, group: Any, kind: str) -> Any:
    """The process group of a mesh of one dimension."""
    from torch.distributed.device_mesh import DeviceMesh

    if not isinstance(mesh, DeviceMesh):
        raise InvalidArgument("mesh", mesh, "must be a torch.distributed.device_mesh.DeviceMesh")
    if group is not None:
        raise InvalidArgument("mesh", mesh, "cannot be combined with group=")
    if kind != "fixed":
        raise InvalidArgument("mesh", mesh, 'is for membership="fixed"')
    if mesh.ndim != 1:
        names = mesh.mesh_dim_names
        one = f'mesh["{names[0]}"]' if names else "a mesh with names of dimensions, and take one"
        raise InvalidArgument(
            "mesh",
            mesh,
            f"has {mesh.ndim} dimensions: must be the one between nodes, such as {one}",
        )
    return mesh.get_group()
