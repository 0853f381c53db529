"""Who the nodes are, how they find each other, and who is lost.

- `Membership` (`contract.py`): what everything that exchanges messages is given.
- `FixedMembership` and `join_nodes` (`fixed.py`): the nodes that were there at the start.
- `LiveMembership` (`live.py`): nodes that join and leave. They register (`registration.py`) with
  torchft's lighthouse (`lighthouse.py`), which knows who is alive; what follows from that all nodes
  decide alike (`meeting.py`), and connect (`connecting.py`, `gloo.py`). Waits for nodes that have
  died are noticed (`watch.py`) and left (`waiter.py`).
- `join` (`group.py`): the process group of the nodes that torchrun has started (`torchrun.py`).
- `require_alike`, `together`, `texts_of_all` (`handshake.py`): nodes compare their settings, and do
  something all together or not at all.
- `Progress` (`progress.py`): how far every node has got, so that one that is lost can be named.

Node 1 waited for node 0, which waited for node 2, which has not given up: node 2 is lost.

>>> from basegraph.engines.distributed.membership import Report, suspects
>>> gave_up = [Report(4, "step 3", True, 2), Report(4, "step 3", True, 0)]
>>> suspects([*gave_up, Report(4, "step 3")], node=1, peer=0)
[2]
"""

from typing import TYPE_CHECKING

from basegraph.lazy import lazy_names

if TYPE_CHECKING:
    from basegraph.engines.distributed.membership.contract import Membership
    from basegraph.engines.distributed.membership.fixed import FixedMembership, join_nodes
    from basegraph.engines.distributed.membership.group import join
    from basegraph.engines.distributed.membership.handshake import (
        Refused,
        require_alike,
        texts_of_all,
        together,
    )
    from basegraph.engines.distributed.membership.live import LiveMembership
    from basegraph.engines.distributed.membership.meeting import Meeting
    from basegraph.engines.distributed.membership.progress import Progress, Report, suspects
else:
    _HOMES = {
        "FixedMembership": "basegraph.engines.distributed.membership.fixed",
        "LiveMembership": "basegraph.engines.distributed.membership.live",
        "Meeting": "basegraph.engines.distributed.membership.meeting",
        "Membership": "basegraph.engines.distributed.membership.contract",
        "Progress": "basegraph.engines.distributed.membership.progress",
        "Refused": "basegraph.engines.distributed.membership.handshake",
        "Report": "basegraph.engines.distributed.membership.progress",
        "join": "basegraph.engines.distributed.membership.group",
        "join_nodes": "basegraph.engines.distributed.membership.fixed",
        "require_alike": "basegraph.engines.distributed.membership.handshake",
        "suspects": "basegraph.engines.distributed.membership.progress",
        "texts_of_all": "basegraph.engines.distributed.membership.handshake",
        "together": "basegraph.engines.distributed.membership.handshake",
    }
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = [
    "FixedMembership",
    "LiveMembership",
    "Meeting",
    "Membership",
    "Progress",
    "Refused",
    "Report",
    "join",
    "join_nodes",
    "require_alike",
    "suspects",
    "texts_of_all",
    "together",
]
