"""Random-k: all nodes exchange the same few values, chosen anew in every round."""

from __future__ import annotations

from basegraph.algorithms.options import share
from basegraph.specs import spec_of
from basegraph.topologies.core.integers import at_least
from basegraph.wires.contract import Wire
from basegraph.wires.coordinates import Coordinates


def randk(fraction: float = 0.01, rounds: int = 1, seed: int = 0) -> Wire:
    """Some of the values, as they are: all nodes draw the same places, which need not be sent.

    Args:
        fraction: How many of the values, in (0, 1].
        rounds: For how many rounds the places stay the same. With the period of an exact sequence,
            every value is averaged exactly once in ceil(1/fraction) periods.
        seed: What the places are drawn from.

    """
    share(fraction=fraction)
    at_least(1, rounds=rounds)
    at_least(0, below=2**64, seed=seed)
    options: dict[str, object] = {"fraction": fraction}
    options |= {} if rounds == 1 else {"rounds": rounds}
    options |= {} if seed == 0 else {"seed": seed}
    return Wire(spec_of("randk", options), coordinates=Coordinates(fraction, rounds, seed))
