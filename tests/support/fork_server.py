"""A process that has imported everything, and forks nodes and torchrun itself when it is asked to.

It reads lines of JSON from standard input and answers each with one; `support.forks` writes them.
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
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from support.launch import SCRIPTS, warm_up

APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
ENDED: dict[int, int] = {}
"""Exit codes of processes that nobody has asked about yet."""


def redirect(output: Path, errors: Path) -> None:
    """Read from nothing, and write to these files."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(output, APPEND), 1)
    os.dup2(os.open(errors, APPEND), 2)


def run_python(words: list[str], *, teardown: bool = False) -> None:
    """`python WORDS`: a script, or -m and a module, with its flags; ends the process."""

    def run() -> None:
        if words[0] == "-m":
            sys.path[0] = ""
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            script = SCRIPTS / words[0]
            sys.path[0] = str(script.parent)
            sys.argv = [str(script), *words[1:]]
            runpy.run_path(sys.argv[0], run_name="__main__")

    if teardown:
        run()
        sys.exit(0)
    run_and_exit(run)


def run_and_exit(run: Callable[[], None]) -> None:
    """Run this and end the process as Python does, but without taking all modules apart.

    (That writes to nearly all of the memory shared with the server: most of what a fork costs.)
    """
    code = 0
    try:
        run()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if code and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    except Exception:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


def fork_node(node: int, request: dict[str, Any]) -> int:
    """A node in a process of its own, whose number is returned."""
    child = os.fork()
    if child:
        return child
    redirect(Path(request["folder"], "out"), Path(request["folder"], "err"))
    os.environ.update(request["environment"], RANK=str(node), LOCAL_RANK=str(node))
    os.chdir(request["cwd"])
    run_python(request["words"], teardown=request["teardown"])
    raise AssertionError("does not return")


def wait_for(running: dict[int, int], watched: bool) -> tuple[int, dict[int, int]]:
    """The exit code of the first of these processes (of nodes) that has failed, and of each."""
    first, codes, stopped = 0, {}, []
    while running:
        process, status = os.waitpid(-1, os.WUNTRACED)
        if process not in running:
            ENDED[process] = os.waitstatus_to_exitcode(status)
            continue
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


class Reserve:
    """A process that becomes a node when one is started: forked before torchrun has begun."""

    outlets: ClassVar[list[int]] = []
    """Write ends of the pipes to reserves; no reserve may keep one open."""

    def __init__(self) -> None:
        inlet, self._outlet = os.pipe()
        self.outlets.append(self._outlet)
        self.pid = os.fork()
        self.returncode: int | None = None
        if self.pid:
            os.close(inlet)
            return
        for outlet in self.outlets:
            os.close(outlet)
        os.setsid()
        with open(inlet, encoding="utf-8") as pipe:
            request = pipe.read()
        if not request:
            os._exit(0)
        words, environment = json.loads(request)
        os.environ.clear()
        os.environ.update(environment)
        Path("/proc/self/comm").write_text(f"node {environment.get('RANK', '')}")
        run_python(words)

    def begin(self, words: list[str], environment: dict[str, str]) -> None:
        os.write(self._outlet, json.dumps([words, environment]).encode())
        self.outlets.remove(self._outlet)
        os.close(self._outlet)

    def poll(self) -> int | None:
        if self.returncode is None:
            process, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if process else None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """As `subprocess.Popen.send_signal`."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """As `subprocess.Popen.kill`."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = float("inf")) -> int:
        """As `subprocess.Popen.wait`."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("node", timeout)
            time.sleep(0.01)
        assert self.returncode is not None
        return self.returncode


def fork_program(request: dict[str, Any]) -> int:
    """A script, torchrun or a launcher in a process of its own, whose number is returned."""
    child = os.fork()
    if child:
        return child
    redirect(Path(request["output"]), Path(request["errors"]))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    os.chdir(request["cwd"])
    os.environ.update(request["environment"])
    programs = {"python": run_python, "torchrun": run_torchrun, "basegraph launch": run_launch}
    programs[request["program"]](request["words"])
    raise AssertionError("does not return")


def run_torchrun(words: list[str]) -> None:
    """`torchrun WORDS`, but the nodes are forks."""
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler
    from torch.distributed.run import main as torchrun
    from torch.distributed.run import parse_args

    asked = parse_args(words)
    reserves = [Reserve() for _ in range(int(asked.nproc_per_node) * (1 + asked.max_restarts))]

    def start(handler: object, command: tuple[str, ...], environment: dict[str, str]) -> Reserve:
        assert command[:2] == (sys.executable, "-u"), command
        node = reserves.pop(0)
        node.begin(list(command[2:]), environment)
        return node

    SubprocessHandler._popen = start  # type: ignore[assignment,method-assign]
    run_and_exit(lambda: torchrun(words))


def run_launch(words: list[str]) -> None:
    """`basegraph launch WORDS`, but the nodes, four at most, are forks."""
    from basegraph.cli import main
    from basegraph.engines.distributed import launcher

    reserves = [Reserve() for _ in range(4)]

    def start(command: list[str], env: dict[str, str]) -> Reserve:
        node = reserves.pop(0)
        node.begin(command[1:], env)
        return node

    launcher.subprocess = SimpleNamespace(Popen=start)  # type: ignore[assignment]
    run_and_exit(lambda: main(["launch", *words]))


def answer(request: dict[str, Any]) -> Any:
    """What a request asks for."""
    if "nodes" in request:
        running = {fork_node(node, request): node for node in request["nodes"]}
        return wait_for(running, request["watched"])
    if "program" in request:
        return fork_program(request)
    process = request["process"]
    if process not in ENDED:
        ended, status = os.waitpid(process, 0 if request["wait"] else os.WNOHANG)
        if not ended:
            return None
        ENDED[process] = os.waitstatus_to_exitcode(status)
    return ENDED[process]


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell has it ignored
    import safetensors.torch  # noqa: F401
    import torch.distributed.checkpoint.state_dict
    import torch.distributed.fsdp
    import torch.distributed.run  # noqa: F401

    import basegraph.cli.trackers
    import basegraph.optim.checkpoints
    import basegraph.optim.decentralized
    import basegraph.optim.gossip
    import basegraph.training.elastic  # noqa: F401
    from basegraph.cli.app import root_command
    from basegraph.data.catalog import load
    from basegraph.extras import is_installed

    if is_installed("torchft"):
        from basegraph.engines.distributed.membership.lighthouse import torchft_coordination

        torchft_coordination()
    load("digits")
    root_command()
    warm_up()
    gc.freeze()  # nodes need not go through what was there before them
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
