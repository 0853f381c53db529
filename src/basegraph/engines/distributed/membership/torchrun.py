"""What the environment says about the torchrun that has started this process."""

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
    """How often torchrun has restarted the nodes."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def max_restarts() -> int:
    """How often torchrun would restart all nodes."""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0"))


def job() -> str:
    """The name of this torchrun: the same after it has restarted the nodes."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return name if name != "none" else f"{socket.gethostname()} {os.getppid()}"


def agent_store() -> bool:
    """Whether torchrun hosts the store in which nodes find each other; node 0 does otherwise."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def start_prefix() -> str:
    """The prefix of this start's keys in the store, so that restarted nodes see no earlier ones.

    A store that was made for this start needs none. There the machines' counts of restarts may
    differ, too: a machine that has joined later has seen fewer.
    """
    return f"start {restarts()}" if agent_store() else ""


def orphaned() -> bool:
    """Whether torchrun has ended without ending this process, too."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.getppid() != _parent
