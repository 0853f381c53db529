"""What a node exchanges with its neighbors, step by step, while the nodes stay the same."""

from __future__ import annotations

from contextlib import suppress

import torch.distributed as dist
from torch import Tensor

from basegraph.engines.distributed.exact_average import ExactAverage
from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.mixer import AnyExchange, DistributedMixer
from basegraph.engines.distributed.neighbors import Schedule
from basegraph.engines.distributed.options import NodeOptions
from basegraph.engines.distributed.parameters import NodeParameters
from basegraph.engines.distributed.pending import Drift, add_drift
from basegraph.engines.distributed.split_step import Exchange
from basegraph.engines.distributed.stamp import OutOfStep, Stamp
from basegraph.engines.distributed.traffic import Traffic
from basegraph.errors import PeerLost
from basegraph.topologies.two_states.exchange import PairRule
from basegraph.topologies.two_states.sequence import AnyTopology


class Exchanges:
    """The exchanges of a node's steps; they are made anew when nodes come or go.

    Args:
        flat: The node's parameters.
        topology: Who talks to whom.
        membership: Who the nodes are.
        options: Those of the node.
        start: The step at which the topology is at round 0.
        traffic: What this node has sent before, to be counted on.

    """

    def __init__(
        self,
        flat: NodeParameters,
        topology: AnyTopology,
        membership: Membership,
        options: NodeOptions,
        *,
        start: int = 0,
        traffic: Traffic | None = None,
    ) -> None:
        self.mixer = DistributedMixer(
            membership,
            wire=options.sends_by,
            refuse_nonfinite=options.refuse_nonfinite,
            traffic=traffic,
        )
        self.average = ExactAverage(topology, self.mixer)
        """The average of a vector over all nodes; see `ExactAverage`."""
        self.start = start
        """The step at which the topology is at round 0."""
        self._flat = flat
        self._schedule = Schedule(topology, membership.node, options.local_steps, start)
        self._pending: AnyExchange | None = None

    def at(
        self, step: int, content: str = "parameters", *, average: bool = False
    ) -> Exchange | None:
        """What makes the exchange of a step, or None if that is a local step.

        Args:
            step: The step.
            content: What is exchanged, one of `stamp.CONTENTS`.
            average: Take the average of all nodes, instead of the topology's round.

        """
        if average:
            exchanges = self._schedule.communicates(step)
            return (lambda v, out: self.mixer.average(v, step, out)) if exchanges else None
        neighbors = self._schedule.at(step)
        if neighbors is None:
            return None
        stamp = Stamp("step()", step, content=content)
        return lambda v, out: self.mixer.mix(v, stamp, neighbors, out=out)

    def pair_rule(self, step: int) -> PairRule | None:
        """What a node with two vectors makes of what it hears; None at a local step, or with one.

        Args:
            step: The step.

        """
        return self._schedule.pair_rule(step)

    def prefetch(self, step: int) -> None:
        """Start the exchange of x for the next step, to run while its gradient is computed.

        If a neighbor turns out to be lost already, that step reports it; this one is complete.
        """
        with suppress(PeerLost):
            self._begin(step)

    def _begin(self, step: int) -> None:
        neighbors = self._schedule.at(step)
        if neighbors is not None:
            stamp = Stamp("step()", step)
            self._pending = self.mixer.start(self._flat.x_d, stamp, neighbors, copy=True)

    def drift(self, step: int) -> Drift:
        """Finish the exchange that was prefetched for this step, or make it now.

        Returns:
            What the exchange adds to x, if there was one.

        """
        if self._pending is None:
            self._begin(step)
        pending, self._pending = self._pending, None
        return [] if pending is None else pending.drift()

    def move(self, x_d: Tensor, drift: Drift) -> None:
        """Add to x what `drift` has returned, if anything; that is overwritten."""
        encoder = self.mixer.encoder
        if encoder is None:
            add_drift(x_d, drift)
        elif drift:
            encoder.moved(x_d, drift, x_d)

    def reset(self) -> None:
        """Begin anew, as all nodes do after a checkpoint was loaded: neighbors know nothing yet."""
        self.drop()
        if self.mixer.encoder is not None:
            self.mixer.encoder.reset()

    def drop(self) -> None:
        """Wait for a prefetched exchange and discard its outcome."""
        pending, self._pending = self._pending, None
        if pending is not None and self.mixer.membership.group is not None:
            pending.wait()

    def abandon(self) -> None:
        """Forget a prefetched exchange whose connections are closed."""
        self._pending = None

    def __del__(self) -> None:
        """Complete messages under way before the buffers that they use are freed."""
        if getattr(self, "_pending", None) is not None and dist.is_initialized():
            with suppress(PeerLost, OutOfStep):  # which was reported before
                self.drop()
