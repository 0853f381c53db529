"""An average that nodes are taking, in numbers that they can tell each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import NamedTuple

from basegraph.engines.distributed.exact_average import HOWS
from basegraph.topologies.analysis.network import Network

AVERAGED, CONSENSUS = "averaged()", "consensus()"
PHASES = (AVERAGED, CONSENSUS)
NOTHING = (-1.0, 0.0, 0.0, 0.0, 0.0)
"""What a node says that takes none."""


class Averaging(NamedTuple):
    """The call, and its arguments.

    Example:
        >>> Averaging.of(Averaging("averaged()", "auto", None).numbers())
        Averaging(phase='averaged()', how='auto', network=None)

    """

    phase: str
    how: str
    network: Network | None

    def numbers(self) -> tuple[float, ...]:
        """The same as numbers; a network of zeros is none."""
        call = float(PHASES.index(self.phase)), float(HOWS.index(self.how))
        net = self.network
        return call + ((0.0, 0.0, 0.0) if net is None else tuple(map(float, astuple(net))))

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Averaging:
        """Undo `numbers`."""
        phase, how, bandwidth, latency, duplex = numbers
        network = None
        if bandwidth:
            network = Network(bandwidth=bandwidth, latency=latency, duplex=bool(duplex))
        return cls(PHASES[int(phase)], HOWS[int(how)], network)
