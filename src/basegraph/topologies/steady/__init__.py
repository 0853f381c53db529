"""Sequences of pairs chosen for small disagreement in training.

`steady` averages exactly with one neighbor a round, like `euclid` and block-mix, and uses what
those leave free to keep the nodes close while they are trained. What was searched for is kept by
number of nodes in two tables, whose `format` member says what every field holds and which command
made it: mirrors.json (`MirrorParameters`, scripts/search_steady.py) and mixes.json
(`MixParameters`, scripts/search_middle.py).

Example:
    >>> steady(33).period
    7
    >>> mirror_table()[7].splits
    ((7, 5),)

"""

from basegraph.topologies.steady._free_mirrors import MirrorParameters, free_mirrors, mirror_table
from basegraph.topologies.steady._solved_mix import MixParameters, mix_table, solved_mix
from basegraph.topologies.steady._steady import steady

__all__ = [
    "MirrorParameters",
    "MixParameters",
    "free_mirrors",
    "mirror_table",
    "mix_table",
    "solved_mix",
    "steady",
]
