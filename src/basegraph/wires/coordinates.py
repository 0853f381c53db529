"""Which values are exchanged in a round: a pure function of (seed, round), the same at all nodes.

The places of a vector are put into an order, place (a·i + b) mod d for i = 0, 1, ..., with a
coprime to d, and walked through k at a time. So every value has its turn once in ceil(d/k) draws;
then a and b are drawn anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, gcd

import torch
from torch import Tensor

from basegraph.topologies.core.random import integers


@dataclass(frozen=True)
class Coordinates:
    """Places of a vector, round by round.

    Args:
        fraction: How many of the places.
        rounds: For how many rounds they stay the same.
        seed: What they are drawn from.

    Example:
        >>> chosen = Coordinates(fraction=0.25)
        >>> turns = [chosen.at(number, 8, torch.device("cpu")) for number in range(4)]
        >>> sorted(torch.cat(turns).tolist())
        [0, 1, 2, 3, 4, 5, 6, 7]

    """

    fraction: float
    rounds: int = 1
    seed: int = 0

    def count(self, size: int) -> int:
        """How many places of a vector of this size are chosen."""
        return min(size, ceil(self.fraction * size))

    def at(self, number: int, size: int, device: torch.device) -> Tensor:
        """The places of a round.

        Args:
            number: The round, counted on over periods.
            size: How many numbers the vector has.
            device: Where it is.

        """
        count = self.count(size)
        again, turn = divmod(number // self.rounds, -(-size // max(1, count)))
        first, *factors = integers(0, size, 200, seed=self.seed, step=again)
        factor = next((a for a in factors if gcd(a, size) == 1), 1)
        places = torch.arange(turn * count, (turn + 1) * count, device=device)
        return (places * factor + first) % size
