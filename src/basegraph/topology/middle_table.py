"""Middles that keep disagreement small, by n; made by scripts/search_middle.py."""

from basegraph.topology.solved_mix import Middle

# fmt: off
MIDDLES: dict[int, Middle] = {
    33: Middle(
        (8, 8, 8, 6, 3),
        (8, 8, 8, 6, 3),
        (18, 14, 19, 12, 1, 0, 3, 2, 25, 30, 8, 22, 29, 32, 21, 20, 4, 26, 16, 17, 9, 27, 11,
         10, 5, 24, 13, 15, 23, 28, 7, 6, 31),
        (32, 23, 25, 14, 27, 17, 28, 8, 7, 29, 30, 20, 19, 16, 3, 26, 13, 5, 18, 12, 11, 31, 24,
         1, 22, 2, 15, 4, 6, 9, 10, 21, 0),
    ),
}
