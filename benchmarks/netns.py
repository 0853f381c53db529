"""Network namespaces on one machine: a namespace for every rank, all on one bridge, shaped by tc.

Everything lives in a mount and a network namespace of its own, which the kernel takes down with the
last process in it, however that ends; nothing of the machine's own network is touched. No root is
needed where user namespaces are allowed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from basegraph.units import seconds

TOOLS = ("unshare", "mount", "ip", "tc")
SUBNET = "10.203.0"
INTERFACE = "eth0"


class NoNamespaces(Exception):
    """Why this machine cannot have them, in one line."""


def enclosed(command: Sequence[str]) -> list[str]:
    """The command in namespaces of its own; refuses if this machine does not allow that."""
    for tool in TOOLS:
        if shutil.which(tool) is None:
            raise NoNamespaces(
                f"no network namespaces here: {tool} is not installed (iproute2, util-linux)"
            )
    wrapper = ["unshare", "--net", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    _must([*wrapper, "mount", "-t", "tmpfs", "tmpfs", "/run"])
    return [*wrapper, *command]


@contextmanager
def shaped(ranks: int, rate: str, delay: str) -> Iterator[list[list[str]]]:
    """Inside `enclosed`: namespaces whose links have this rate in each direction and this delay.

    Yields what to put before a command to run it as each rank, and removes the namespaces.
    """
    _must(["mount", "-t", "tmpfs", "tmpfs", "/run"])
    names = [f"rank{rank}" for rank in range(ranks)]
    try:
        _must(["ip", "netns", "add", "switch"])
        _must(["ip", "-n", "switch", "link", "add", "bridge", "type", "bridge"])
        _must(["ip", "-n", "switch", "link", "set", "bridge", "up"])
        if seconds("--delay", delay) > 0:
            _require_netem()
        for rank, name in enumerate(names):
            _join(rank, name)
            _shape("switch", f"port{rank}", rate, "0")
            _shape(name, INTERFACE, rate, delay)
        yield [["ip", "netns", "exec", name] for name in names]
    finally:
        for name in ("switch", *names):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def address(rank: int) -> str:
    return f"{SUBNET}.{rank + 1}"


def _join(rank: int, name: str) -> None:
    port = f"port{rank}"
    _must(["ip", "netns", "add", name])
    _must(["ip", "-n", "switch", "link", "add", port, "type", "veth",
           "peer", "name", INTERFACE, "netns", name])  # fmt: skip
    _must(["ip", "-n", "switch", "link", "set", port, "master", "bridge"])
    _must(["ip", "-n", "switch", "link", "set", port, "up"])
    _must(["ip", "-n", name, "link", "set", "lo", "up"])
    _must(["ip", "-n", name, "address", "add", f"{address(rank)}/24", "dev", INTERFACE])
    _must(["ip", "-n", name, "link", "set", INTERFACE, "up"])


def _shape(name: str, device: str, rate: str, delay: str) -> None:
    queue = ["tc", "-n", name, "qdisc", "add", "dev", device, "root"]
    if seconds("--delay", delay) == 0:
        _must([*queue, "tbf", "rate", rate, "burst", "32kb", "latency", "200ms"])
        return
    _must([*queue, "netem", "delay", delay, "rate", rate, "limit", "100000"])


def _require_netem() -> None:
    """Refuse a delay that the kernel cannot make, in words that say so."""
    try:
        _must(["tc", "-n", "switch", "qdisc", "add", "dev", "bridge", "root", "netem"])
    except NoNamespaces:
        raise NoNamespaces("--delay: this kernel has no netem (CONFIG_NET_SCH_NETEM)") from None
    _must(["tc", "-n", "switch", "qdisc", "delete", "dev", "bridge", "root"])


def _must(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise NoNamespaces(f"no network namespaces here: {' '.join(command)}: {said}")
