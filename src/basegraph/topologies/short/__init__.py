"""The shortest known sequences, and the planner that puts them together."""
