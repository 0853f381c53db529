"""Nodes that are forks of one process, which has imported everything already.

Importing torch and basegraph takes seconds of every process that torchrun starts. `nodes_of` is for
what does not depend on torchrun itself.

Run as a script it reads lines of JSON from standard input, starts the nodes that each asks for, and
answers with their exit codes.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from support.launch import SCRIPTS, environment, free_port, warm_up


class Ended(NamedTuple):
    """What nodes have said, and how they have ended."""

    returncode: int
    """Of the first node that has failed, or 0."""
    stdout: str
    stderr: str
    codes: dict[int, int]
    """By node; a node that has stopped itself (SIGSTOP) has none."""


def nodes_of(
    nodes: int, *words: object, watched: bool = True, only: Iterable[int] | None = None
) -> Ended:
    """`torchrun --nproc-per-node NODES WORDS`, the words being a script or `-m MODULE`, then flags.

    Unless they are not `watched`, nodes are told to stop when one has failed, as by torchrun.
    """
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        wanted = {
            "nodes": list(range(nodes) if only is None else only),
            "words": list(map(str, words)),
            "watched": watched,
            "cwd": str(Path.cwd()),
            "folder": folder,
            "environment": {
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(free_port()),
                "WORLD_SIZE": str(nodes),
                "LOCAL_WORLD_SIZE": str(nodes),
            },
        }
        server.stdin.write(json.dumps(wanted) + "\n")
        server.stdin.flush()
        first, codes = json.loads(server.stdout.readline())
        out, errors = (Path(folder, name).read_text(encoding="utf-8") for name in ("out", "err"))
    return Ended(first, out, errors, {int(node): code for node, code in codes.items()})


@cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    atexit.register(server.communicate)
    return server


def fork(node: int, wanted: dict[str, Any]) -> int:
    """A node in a process of its own, whose number is returned."""
    child = os.fork()
    if child:
        return child
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(Path(wanted["folder"], "out"), append), 1)
    os.dup2(os.open(Path(wanted["folder"], "err"), append), 2)
    os.environ.update(wanted["environment"], RANK=str(node), LOCAL_RANK=str(node))
    os.chdir(wanted["cwd"])
    words = wanted["words"]
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [str(SCRIPTS / words[0]), *words[1:]]
        runpy.run_path(sys.argv[0], run_name="__main__")
    sys.exit(0)


def wait_for(running: dict[int, int], watched: bool) -> tuple[int, dict[int, int]]:
    """The exit code of the first of these processes (of nodes) that has failed, and of each."""
    first, codes, stopped = 0, {}, []
    while running:
        process, status = os.waitpid(-1, os.WUNTRACED)
        node = running.pop(process)
        if os.WIFSTOPPED(status):
            stopped.append(process)
            continue
        codes[node] = os.waitstatus_to_exitcode(status)
        if watched and codes[node] and not first:
            for other in running:
                os.kill(other, signal.SIGTERM)
        first = first or codes[node]
    for process in stopped:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    return first, codes


def main() -> None:
    import basegraph.cli
    import basegraph.optim.decentralized
    import basegraph.optim.gossip
    import basegraph.training.elastic
    import basegraph.training.train  # noqa: F401
    from basegraph.data.catalog import load

    load("digits")
    warm_up()
    gc.freeze()  # nodes need not go through what was there before them
    for line in sys.stdin:
        wanted = json.loads(line)
        running = {fork(node, wanted): node for node in wanted["nodes"]}
        print(json.dumps(wait_for(running, wanted["watched"])), flush=True)


if __name__ == "__main__":
    main()
