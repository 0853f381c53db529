"""The shortest known sequences, and the planner that puts them together.

`short` takes, for every n and k, the construction with the fewest rounds. A `Planner` finds it as a
plan (`plans`): the Base-(k+1) Graph, `euclid` (mirrors of a circle), a product, `block_merge`, or
`block_mix`, whose middle round is laid out by a formula (`corner_middle`) or pair by pair
(`laid_middle`, `layout`); `free_mix` has middles of one or two rounds.

For some n programs searched for what a formula does not give. The tables hold their choices, by
number of nodes; the `format` member of each says what its fields are and which command made it:

- laid_mixes.json: rows and columns, and the turn at which `lay_out` finds the middle (k = 1);
- corner_mixes_k2.json, ...: rows and columns for `CornerMiddle`, and corners that are flipped;
- free_mixes_k1.json, ...: rows, columns, and the middle rounds edge by edge.

Example:
    >>> short(25).period, block_mix(25).period, euclid(25).period
    (7, 7, 7)
    >>> default_planner().best_plan(46, 1)
    LaidMixPlan(rounds=7, rows=((8, 5), (6, 1)), columns=((8, 5), (6, 1)), turn=1)

"""

from basegraph.topologies.short._euclid import euclid
from basegraph.topologies.short._short import block_merge, block_mix, short
from basegraph.topologies.short.planner import Planner, default_planner

__all__ = ["Planner", "block_merge", "block_mix", "default_planner", "euclid", "short"]
