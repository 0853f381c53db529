"""All nodes in one process: one tensor with a leading node axis."""
