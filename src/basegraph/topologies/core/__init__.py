"""Rounds and sequences: the value types of a topology, and exact integers behind them."""
