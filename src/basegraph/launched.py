"""What the environment says about who has started this process as a node that joins and leaves."""

from __future__ import annotations

import os

LIGHTHOUSE = "TORCHFT_LIGHTHOUSE"
"""The environment variable with the lighthouse's address."""
NAME = "BASEGRAPH_NODE"
"""The environment variable with which the name of a node begins."""
EXPECTED = "BASEGRAPH_NODES"
"""The environment variable with the number of nodes that the first ones wait for."""
JOB = "BASEGRAPH_JOB"
"""The environment variable that names the job; `basegraph launch` sets it."""


def membership_is_live() -> bool:
    """Whether this process is a node that joins and leaves: with a lighthouse, without torchrun."""
    return LIGHTHOUSE in os.environ and "WORLD_SIZE" not in os.environ


def expected() -> int:
    """How many nodes the first ones of a job wait for; 0 for those that come later."""
    return int(os.environ.get(EXPECTED, "0"))


def job() -> str:
    """The name of the job; empty where it has none."""
    return os.environ.get(JOB, "")


def launched() -> bool:
    """Whether `basegraph launch` has started this process, or another program in its place."""
    return membership_is_live() and bool(job())


def repeats_others() -> bool:
    """Whether other nodes, started together with this one, make the same mistake and report it."""
    return launched() and expected() > 0 and os.environ.get(NAME, "node-0") != "node-0"
