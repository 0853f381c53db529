"""Sequences of pairs chosen for small disagreement in training."""
