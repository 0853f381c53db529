"""The nodes that were there at the start, the same until the end."""

from __future__ import annotations

import atexit
import os
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from basegraph.engines.distributed.bounded import end_gloo_waits
from basegraph.engines.distributed.membership import progress
from basegraph.engines.distributed.membership.group import join, join_alone
from basegraph.engines.distributed.membership.progress import TIMEOUT, Progress
from basegraph.engines.distributed.shutdown.exit import let_groups_go
from basegraph.errors import BasegraphError, InvalidArgument

T = TypeVar("T")
CPU = torch.device("cpu")


class FixedMembership:
    """The ranks of a process group that exists.

    Args:
        group: The process group; all processes if None.
        timeout: Seconds after which a node counts as lost.
        device: Where the messages are by which nodes compare their settings.

    Raises:
        InvalidArgument: This process is not among the group's ranks.

    """

    def __init__(
        self, group: Any = None, timeout: float = TIMEOUT, device: torch.device = CPU
    ) -> None:
        self.node = dist.get_rank(group)
        if self.node < 0:
            raise InvalidArgument("group", group, "does not contain this process")
        self.n = dist.get_world_size(group)
        self.timeout = timeout
        self.device = device
        # None stays None: a reference to torch's default group would keep its threads alive.
        self._group = group
        progress.watch(group, timeout)

    @property
    def group(self) -> Any:
        """The process group whose ranks are the nodes, in their order."""
        group = dist.group.WORLD if self._group is None else self._group
        if group is None:
            raise BasegraphError("the process group was destroyed: build a new optimizer")
        return group

    @property
    def progress(self) -> Progress:
        """What the nodes know of each other, to name one that is lost."""
        return progress.of(self._group)

    @property
    def epoch(self) -> int:
        """Counts the changes of membership: none."""
        return 0

    @property
    def members(self) -> list[str]:
        """A name for every node, in their order."""
        return [f"node {node}" for node in range(self.n)]

    @property
    def only_gloo(self) -> bool:
        """Whether the group has no other backend than gloo."""
        return str(dist.get_backend(self.group)) == "gloo"

    def wait(self, call: Callable[[], T]) -> T:
        """Make a call that waits for other nodes; nothing but its timeout ends it."""
        return call()

    def end_waits(self) -> None:
        """End the waits for other nodes, from another thread; a destroyed group has none."""
        group = dist.group.WORLD if self._group is None else self._group
        if group is not None:
            end_gloo_waits(group, self.node, self.n)

    def on(self, device: torch.device) -> FixedMembership:
        """The same nodes, with messages on another device."""
        return FixedMembership(self._group, self.timeout, device)


def join_nodes(group: Any, timeout: float) -> FixedMembership:
    """Make sure there is a process group; torchrun's environment is enough to make one.

    Without torchrun (in a debugger, in a notebook) the process is a single node.

    Args:
        group: The process group whose ranks are the nodes; all processes if None.
        timeout: Seconds after which a node counts as lost.

    Raises:
        BasegraphError: This torch has no torch.distributed.
        InvalidArgument: A group is given and there are no processes, or this is not among them.
        PeerLost: A node that torchrun has started does not come.

    """
    if not dist.is_available():
        raise BasegraphError("this torch has no torch.distributed")
    if not dist.is_initialized():
        if group is not None:
            raise InvalidArgument("group", group, "torch.distributed is not initialized")
        if "WORLD_SIZE" in os.environ:
            join(timeout=timeout)
        else:
            warnings.warn(
                "not started by torchrun: this process is a single node and exchanges nothing. "
                "For four nodes: torchrun --nproc-per-node 4 script.py",
                stacklevel=4,  # the script's line
            )
            join_alone(timeout)
        atexit.register(progress.leave)
    let_groups_go()
    return FixedMembership(group, timeout)
