"""Nodes that are forks of one process, which has imported everything already.

Importing torch and basegraph takes seconds of every process that torchrun starts. `nodes_of` is for
what does not depend on torchrun itself; `Forked` may be torchrun, whose nodes are forks too.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from support.launch import TESTS, environment, free_port


class Ended(NamedTuple):
    """What nodes have said, and how they have ended."""

    returncode: int
    """Of the first node that has failed, or 0."""
    stdout: str
    stderr: str
    codes: dict[int, int]
    """By node; a node that has stopped itself (SIGSTOP) has none."""


def nodes_of(
    nodes: int,
    *words: object,
    watched: bool = True,
    only: Iterable[int] | None = None,
    teardown: bool = False,
) -> Ended:
    """`torchrun --nproc-per-node NODES WORDS`, the words being a script or `-m MODULE`, then flags.

    If `watched`, the others get SIGTERM when one node has failed, as from torchrun. With `teardown`
    the interpreter takes everything apart at the end, which takes longer than most scripts.
    """
    with tempfile.TemporaryDirectory() as folder:
        first, codes = _ask(
            nodes=list(range(nodes) if only is None else only),
            words=list(map(str, words)),
            watched=watched,
            teardown=teardown,
            cwd=str(Path.cwd()),
            folder=folder,
            environment={
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(free_port()),
                "WORLD_SIZE": str(nodes),
                "LOCAL_WORLD_SIZE": str(nodes),
            },
        )
        out, errors = (Path(folder, name).read_text(encoding="utf-8") for name in ("out", "err"))
    return Ended(first, out, errors, {int(node): code for node, code in codes.items()})


class Forked:
    """A program in the background, as far as needed like a `Popen`.

    Args:
        program: "torchrun", "basegraph launch" or "python".
        words: A script or `-m MODULE`, then flags; torchrun's own come before.
        log: Where it writes its errors.
        output: Where it writes the rest, unless it is that file too.
        environment: Variables besides those of this process.

    """

    def __init__(
        self,
        program: str,
        words: list[str],
        log: Path,
        output: Path | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.pid: int = _ask(
            program=program,
            words=words,
            errors=str(log),
            output=str(output or log),
            environment=dict(environment),
            cwd=str(Path.cwd()),
        )

    def poll(self) -> int | None:
        return _ask(process=self.pid, wait=False)

    def wait(self) -> int:
        return _ask(process=self.pid, wait=True)

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork_of(command: list[str], env: Mapping[str, str]) -> Forked:
    """`subprocess.Popen` for a command of Python; what it says goes to files in its folder."""
    python, *words = command
    assert python == sys.executable, command
    if words[0] != "-m":
        words[0] = str(Path(words[0]).resolve())
    return Forked("python", words, Path("fork.err"), Path("fork.out"), env)


def run_python(*words: object, **environment: str) -> Ended:
    """`python WORDS`, a script of tests/scripts (or by its path) or `-m MODULE`, then flags."""
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder, "out"), Path(folder, "err")
        code = Forked("python", list(map(str, words)), errors, out, environment).wait()
        return Ended(code, out.read_text("utf-8"), errors.read_text("utf-8"), {})


def run_script(script: str, *arguments: object) -> None:
    """`python SCRIPT ARGUMENTS`, which must succeed."""
    done = run_python(script, *arguments)
    assert done.returncode == 0, done.stderr[-3000:]


def _ask(**request: object) -> Any:
    """What the server answers."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())


@cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, str(TESTS / "support" / "fork_server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    atexit.register(server.communicate)
    return server
