"""What torchrun tells the processes that it starts, by their environment."""

from __future__ import annotations

import os
import socket

_parent = os.getppid()


def _remember_parent() -> None:
    global _parent  # noqa: PLW0603
    _parent = os.getppid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_remember_parent)


def restarts() -> int:
    """How often torchrun has started the nodes again."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def job() -> str:
    """Which torchrun this is: the same after it has started the nodes again."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return name if name != "none" else f"{socket.gethostname()} {os.getppid()}"


def agent_store() -> bool:
    """Whether torchrun keeps the store in which nodes find each other; node 0 does otherwise."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def this_start() -> str:
    """A place in the store that nodes which are started again share with nobody before them.

    A store that is made for this start alone needs none, and there the machines' counts of starts
    may differ: one that has come later has seen fewer.
    """
    return f"start {restarts()}" if agent_store() else ""


def orphaned() -> bool:
    """Whether the torchrun that has started this process has ended without ending it too."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.getppid() != _parent
