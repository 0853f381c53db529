"""Starting scripts with torchrun, and what their nodes have to say."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command(nodes: int, script: str | Path, *arguments: object) -> list[str]:
    return [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(nodes),
        "--master-addr", "127.0.0.1", "--master-port", str(free_port()),
        str(HERE / script), *map(str, arguments),
    ]  # fmt: skip


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def torchrun(
    nodes: int, script: str | Path, *arguments: object, timeout: float = 200
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(nodes, script, *arguments),
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(),
    )


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
