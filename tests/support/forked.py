"""Nodes that are forks of this process: what it has imported, they need not import."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path


def fork(rank: int, size: int, port: int, node: Callable[[int], int], log: Path) -> int:
    """A node in a process of its own, whose number is returned; what it says is in `log`."""
    child = os.fork()
    if child:
        return child
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(size), RANK=str(rank)
    )
    code = 1
    try:
        code = node(rank)
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
