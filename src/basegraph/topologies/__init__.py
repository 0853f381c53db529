"""Topologies: which nodes talk to which at every step, with exact weights, and the proof."""
