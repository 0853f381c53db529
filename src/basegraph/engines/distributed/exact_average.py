"""The average of all nodes' vectors, whatever the topology of training is.

There are three ways. Gossip over `short` takes the fewest rounds known for one vector per node;
two-state gossip over `ceca` takes ceil(log2 n) rounds, the fewest possible, and two vectors more in
memory; the backend's all-reduce sends fewer bytes in more messages. By the network model of
`basegraph bench model` the first two are quickest for small vectors and the last for large ones.
"""

from __future__ import annotations

import logging
from functools import cached_property, lru_cache

from torch import Tensor

from basegraph.engines.distributed import collectives
from basegraph.engines.distributed.membership.handshake import first_other, require_same_bits
from basegraph.engines.distributed.mixer import DistributedMixer
from basegraph.engines.distributed.neighbors import Schedule
from basegraph.engines.distributed.pending import NotFinite
from basegraph.engines.distributed.stamp import Stamp
from basegraph.engines.finite import finite
from basegraph.errors import InvalidArgument
from basegraph.topologies.analysis.network import (
    AVERAGES,
    DEFAULT_NETWORK,
    Network,
    quickest_average,
)
from basegraph.topologies.analysis.rates import reaches_average
from basegraph.topologies.catalog import topology as build_topology
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.two_states.sequence import AnyTopology, TwoStateSequence

LOG = logging.getLogger("basegraph")
HOWS = ("auto", *AVERAGES)
"""How the average is taken: "auto" is the quickest of the others by the network model."""


class ExactAverage:
    """Takes the exact average of all nodes, in one of several ways.

    Args:
        topology: The one of training; a warning says where that would not have been exact.
        mixer: What exchanges vectors.

    """

    def __init__(self, topology: AnyTopology, mixer: DistributedMixer) -> None:
        self._topology = topology
        self._mixer = mixer
        self._warned = False

    def __call__(
        self, v: Tensor, stamp: Stamp, how: str = "auto", network: Network | None = None
    ) -> Tensor:
        """The average of a vector over all nodes, the same bits everywhere; the vector stays.

        Nodes round differently, by the order in which they have met: node 0's outcome is the one.

        Args:
            v: This node's vector.
            stamp: What the exchanges belong to.
            how: One of `HOWS`, the same on all nodes.
            network: What "auto" models, the same on all nodes; default: `DEFAULT_NETWORK`.

        Raises:
            InvalidArgument: If there is no such way, or the network is none.

        """
        how = self.chosen(v, how, network)
        self._warn(how)
        v = v.clone()
        membership = self._mixer.membership
        if how == "all-reduce":
            self._all_reduce(v, stamp)
            if first_other(v, membership, stamp.phase) is None:
                return v  # backends that add in one place and copy the sum: no broadcast is needed
        elif how == "two-state":
            v = self._two_state(v, stamp._replace(phase=f"two-state {stamp.phase}"))
        else:
            self._gossip(v, stamp)
        collectives.broadcast(v, membership, stamp.phase)
        require_same_bits(v, membership, stamp.phase)
        return v

    def chosen(self, v: Tensor, how: str, network: Network | None) -> str:
        """The way that is taken for a vector: `how` itself, or what "auto" stands for."""
        if how not in HOWS:
            raise InvalidArgument("how", how, f"must be one of {', '.join(HOWS)}")
        if network is not None and not isinstance(network, Network):
            raise InvalidArgument("network", network, "must be a bg.analysis.Network")
        if how != "auto":
            return how
        return _quickest(self._topology.n, v.nbytes, network or DEFAULT_NETWORK)

    def _gossip(self, v: Tensor, stamp: Stamp) -> None:
        schedule = self._short
        for step in range(schedule.topology.period or 0):
            neighbors = schedule.at(step)
            if neighbors is not None:
                self._mixer.mix(v, stamp, neighbors, out=v, as_is=True)

    def _two_state(self, v: Tensor, stamp: Stamp) -> Tensor:
        """v is what a round sends, w the other vector; where they change places, x is v at last."""
        schedule, w, heard = self._ceca, v.clone(), v.clone()
        for step in range(schedule.topology.period or 0):
            neighbors, rule = schedule.at(step), schedule.pair_rule(step)
            if neighbors is not None and rule is not None:
                self._mixer.mix(v, stamp, neighbors, out=heard, as_is=True)
                v.lerp_(heard, rule.sent)
                w.lerp_(heard, rule.other)
                v, w = (w, v) if rule.swaps else (v, w)
        return v

    def _all_reduce(self, v: Tensor, stamp: Stamp) -> None:
        self._mixer.require_together(v, stamp)
        v.div_(self._topology.n)  # first: a sum of large numbers may be too large for the type
        collectives.all_reduce(v, self._mixer.membership, stamp.phase)
        self._mixer.traffic.count_all_reduce(v.nbytes, self._topology.n)
        if self._mixer.refuse_nonfinite and not finite(v):
            raise NotFinite(f"node {self._mixer.node}: the average is not finite in {stamp.when}")

    @cached_property
    def _short(self) -> Schedule:
        return Schedule(build_topology(AVERAGES["gossip"], self._topology.n), self._mixer.node)

    @cached_property
    def _ceca(self) -> Schedule:
        return Schedule(build_topology(AVERAGES["two-state"], self._topology.n), self._mixer.node)

    def _warn(self, how: str) -> None:
        """Say once, at node 0, that the rounds of training would not do, and what is done."""
        t = self._topology
        if self._warned or self._mixer.node > 0:
            return
        self._warned = True
        if not (isinstance(t, Sequence | TwoStateSequence) and reaches_average(t)):
            LOG.warning(
                "%s with n=%d does not reach the average exactly: consensus() and averaged() use "
                "%s, %s",
                *(t.spec, t.n, AVERAGES[how], self._costs(how)),
            )

    def _costs(self, how: str) -> str:
        if how == "all-reduce":
            return "a collective of the backend"
        return f"{(self._ceca if how == 'two-state' else self._short).topology.period} rounds"


@lru_cache(maxsize=64)
def _quickest(n: int, size: int, network: Network) -> str:
    return quickest_average(n, size, network)
