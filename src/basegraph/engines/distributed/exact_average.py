"""The average of all nodes' vectors by gossip, whatever the topology of training is."""

from __future__ import annotations

import logging
from functools import cached_property

from torch import Tensor

from basegraph.engines.distributed.collectives import broadcast
from basegraph.engines.distributed.membership.handshake import require_same_bits
from basegraph.engines.distributed.mixer import DistributedMixer
from basegraph.engines.distributed.neighbors import Schedule
from basegraph.engines.distributed.stamp import Stamp
from basegraph.topologies.analysis.rates import reaches_average
from basegraph.topologies.catalog import topology as build_topology
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.two_states.sequence import AnyTopology, TwoStateSequence

LOG = logging.getLogger("basegraph")


class ExactAverage:
    """Gossip over `short`, the shortest known sequence that averages exactly for any n.

    Args:
        topology: The one of training; a warning says where that would not have been exact.
        mixer: What exchanges vectors.

    """

    def __init__(self, topology: AnyTopology, mixer: DistributedMixer) -> None:
        self._topology = topology
        self._mixer = mixer

    def __call__(self, v: Tensor, stamp: Stamp) -> Tensor:
        """The average of a vector over all nodes, the same bits everywhere; the vector stays.

        Nodes round differently, by the order in which they have met: node 0's outcome is the one.
        """
        v = v.clone()
        schedule = self._schedule
        for step in range(schedule.topology.period or 0):
            neighbors = schedule.at(step)
            if neighbors is not None:
                self._mixer.mix(v, stamp, neighbors, out=v, as_is=True)
        broadcast(v, self._mixer.membership, stamp.phase)
        require_same_bits(v, self._mixer.membership, stamp.phase)
        return v

    @cached_property
    def _schedule(self) -> Schedule:
        t = self._topology
        short = build_topology("short:k=1", t.n)
        exact = isinstance(t, Sequence | TwoStateSequence) and reaches_average(t)
        if self._mixer.node == 0 and not exact:
            LOG.warning(
                "%s with n=%d does not reach the average exactly: consensus() and averaged() use "
                "%s, %d rounds",
                *(t.spec, t.n, short.spec, short.period),
            )
        return Schedule(short, self._mixer.node)
