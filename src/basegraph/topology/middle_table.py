"""Middles that keep disagreement small, by n; made by scripts/search_middle.py."""

from basegraph.topology.solved_mix import Middle

MIDDLES: dict[int, Middle] = {}
