"""Engines: the only place where execution differs.

`contract` says what an engine offers to a run. Three engines keep it: `stacked` (all nodes in one
process), `captured` (the same as one CUDA graph) and `distributed` (one node per process). An
algorithm gives the same numbers on all of them, to rounding.

The engines themselves are imported from their modules, because they need torch.

>>> from basegraph.engines.stacked.peers import plan
>>> from basegraph.topologies.catalog import topology
>>> plan(topology("one-peer-exponential", n=4)[0]).peers.tolist()
[[1], [2], [3], [0]]
"""
