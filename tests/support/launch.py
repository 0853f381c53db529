"""Starting scripts with torchrun, and what their nodes begin and end with."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
SCRIPTS = TESTS / "scripts"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command(nodes: int, script: str | Path, *arguments: object, restarts: int = 0) -> list[str]:
    """What to tell torchrun: a script of tests/scripts, or `-m` and a module, with its flags."""
    return [
        "--nproc-per-node", str(nodes), "--max-restarts", str(restarts),
        "--master-addr", "127.0.0.1", "--master-port", str(free_port()),
        str(script if script == "-m" else SCRIPTS / script), *map(str, arguments),
    ]  # fmt: skip


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def torchrun(
    nodes: int, script: str | Path, *arguments: object
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TORCHRUN, *command(nodes, script, *arguments)],
        capture_output=True,
        text=True,
        env=environment(),
    )


def warm_up() -> None:
    """Import now what the first step of an optimizer imports: it takes seconds, not the same ones.

    (Nodes that have not begun alike would wait for each other longer than they are told to.)
    """
    import torch

    x = torch.nn.Parameter(torch.zeros(1))
    x.grad = torch.zeros(1)
    torch.optim.SGD([x], lr=0.1).step()
    from torch.distributed.nn import functional  # noqa: F401


def leave() -> None:
    """End a node that has done its work, without torch's threads being torn down by the exit.

    (On a loaded machine it has been seen to abort: "terminate called without an active exception".)
    """
    import torch.distributed as dist

    gc.collect()
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)


def run_checks(*checks: Callable[[], None]) -> None:
    """Run these on every node, one after another; node 0 says which have passed."""
    import torch.distributed as dist

    dist.init_process_group("gloo")
    for check in checks:
        check()
        if dist.get_rank() == 0:
            print("fine:", check.__name__, flush=True)
    leave()
