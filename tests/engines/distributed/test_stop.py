"""Told to stop by whomever, however often: every node saves, within the time there is."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from safetensors.torch import load_file
from test_train_distributed import command as train_command

from basegraph.engines import checkpoint
from basegraph.engines.distributed.shutdown import deadline
from basegraph.engines.signals import SignalLog, guard_steps, logged_signals
from support.jobs import Job
from support.launch import command

linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
NODES = 3


def start(tmp_path, *arguments: object, forks: bool = True) -> Job:
    run = command(NODES, "stop_script.py", tmp_path / "saved", *arguments)
    job = Job(tmp_path / "log", run, forks=forks)
    job.wait_for(r"(going \d(.|\n)*){3}")
    return job


def tell_all(job: Job, number: signal.Signals) -> None:
    """As Slurm and systemd do, and Ctrl-C; torchrun then tells its processes again."""
    for process in [job.process.pid, *(job.worker(rank) for rank in range(NODES))]:
        os.kill(process, number)


def state(process: int) -> str:
    """As ps shows it: T for stopped."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def saved(tmp_path) -> dict[int, Path]:
    files = (tmp_path / "saved").glob("*.safetensors")
    return {checkpoint.header(path)[0]["node"]: path for path in files}


def saved_steps(tmp_path) -> dict[int, int]:
    return {n: checkpoint.header(path)[0]["step"] for n, path in saved(tmp_path).items()}


@linux
@pytest.mark.parametrize(
    ("number", "forks"),
    [
        (signal.SIGTERM, True),
        (signal.SIGINT, True),
        pytest.param(signal.SIGTERM, False, marks=pytest.mark.slow),
    ],
)
def test_all_nodes_of_a_script_save(number, forks, tmp_path):
    with start(tmp_path, forks=forks) as job:
        nodes = [job.worker(rank) for rank in range(NODES)]
        tell_all(job, number)
        if number == signal.SIGTERM:  # once more, before torchrun has ended, which it may not bear
            job.process.send_signal(number)
        text = job.end_of(*nodes)
    steps = saved_steps(tmp_path)
    assert sorted(steps) == list(range(NODES)), text
    assert max(steps.values()) - min(steps.values()) <= NODES
    assert len(re.findall(f"stopped by {number.name}.*saved node", text)) == NODES
    assert "KeyboardInterrupt" not in text


def below(process: int) -> list[int]:
    """All processes that this one has started, and those that they have."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [p for child in map(int, children) for p in (child, *below(child))]


@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_optimizers_save_although_workers_of_their_data_end(number, tmp_path):
    """A scheduler signals these as well, and torch raises an error where they were waited for."""
    run = command(2, "loader_script.py", tmp_path)
    with Job(tmp_path / "log", run, forks=False) as job:
        job.wait_for(r"(going \d(.|\n)*){2}")
        workers = [job.worker(rank) for rank in range(2)]
        processes = [job.process.pid, *below(job.process.pid)]
        assert len(processes) >= 5  # torchrun, its nodes, a worker of each
        for process in reversed(processes):  # the workers before those who wait for them
            os.kill(process, number)
        text = job.end_of(*workers)
    for name in ("first", "second"):
        found = {path.name for path in (tmp_path / name).glob("node-*")}
        assert {"node-0.safetensors", "node-1.safetensors"} <= found, text


@linux
def test_nobody_is_waited_for_beyond_the_grace_time(tmp_path):
    """One node waits in torch for another that hangs; a third one is not in a step at all."""
    with start(tmp_path, "stuck") as job:
        hung = job.worker(1)
        while state(hung) != "T":
            time.sleep(0.1)
        tell_all(job, signal.SIGTERM)
        text = job.wait_for(r"(saved node \d+ (.|\n)*){2}").string
        os.kill(hung, signal.SIGKILL)
        job.process.wait()
    assert saved_steps(tmp_path) == {0: 5, 2: 5}, text
    own = re.search(r"going 2: (.*)", text)
    assert own is not None
    bias = load_file(saved(tmp_path)[2])["x"][-3:]
    assert bias.tolist() == json.loads(own.group(1))  # not the average that it looked at


@linux
def test_a_run_saves_when_all_its_processes_are_told(tmp_path):
    out = tmp_path / "run"
    run = train_command(NODES, "--epochs", 3000, "--evaluate-every", 1, "--out", out)
    with Job(tmp_path / "log", run) as job:
        job.wait_for("epoch 2:")
        tell_all(job, signal.SIGTERM)
        job.process.wait()
    text = job.log.read_text(encoding="utf-8")
    assert text.count("stopped by SIGTERM after step") == 1, text
    assert "forcefully" not in text, text  # torchrun had to kill none
    assert load_file(out / "checkpoint.safetensors")["x"].shape[0] == NODES
    assert not list((out / "nodes").glob("node-*"))


@pytest.fixture
def default_handlers():
    """The handlers of a fresh process: optimizers of other tests may have installed theirs."""
    previous = {
        number: signal.signal(number, handler)
        for number, handler in (
            (signal.SIGINT, signal.default_int_handler),
            (signal.SIGTERM, signal.SIG_DFL),
            (deadline.NUDGE, signal.SIG_DFL),
        )
    }
    yield
    for number, handler in previous.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("default_handlers")
def test_the_third_signal_is_obeyed_at_once(monkeypatch):
    clock = Mock(return_value=0.0)
    monkeypatch.setattr("basegraph.engines.signals.time.monotonic", clock)
    for together in (1, 5):
        with logged_signals() as log:
            for _ in range(together):
                signal.raise_signal(signal.SIGINT)
            clock.return_value += 1.1
            if together == 1:
                signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            assert len(log.received) == max(together + 1, 3)


@pytest.mark.usefixtures("default_handlers")
def test_a_forked_process_obeys_the_first():
    with logged_signals():
        child = os.fork()
        if not child:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM


def interrupted_worker() -> None:
    signal.raise_signal(signal.SIGINT)


@linux
@pytest.mark.usefixtures("default_handlers")
@pytest.mark.parametrize("daemon", [True, False])
def test_ctrl_c_leaves_workers_of_a_loader_to_their_parent(daemon):
    """Those are daemonic processes; others obey."""
    with logged_signals():
        worker = multiprocessing.get_context("fork").Process(
            target=interrupted_worker, daemon=daemon
        )
        worker.start()
        worker.join()
    assert (worker.exitcode == 0) == daemon


@linux
@pytest.mark.usefixtures("default_handlers")
def test_the_end_of_a_worker_interrupts_no_step(monkeypatch):
    def raise_error(number, frame):
        raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Terminated. ")

    monkeypatch.setattr(raise_error, "__module__", "torch.utils.data._utils.signal_handling")
    previous = signal.signal(signal.SIGCHLD, raise_error)
    try:
        guard_steps()
        guard_steps()
        with pytest.raises(RuntimeError, match="DataLoader worker"):
            signal.raise_signal(signal.SIGCHLD)
        in_package = {"__name__": "basegraph.optim", "signal": signal}
        exec("signal.raise_signal(signal.SIGCHLD)", in_package)
        with logged_signals():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGCHLD)
    finally:
        signal.signal(signal.SIGCHLD, previous)


@pytest.mark.usefixtures("default_handlers")
def test_a_signal_that_another_handler_took_ends_nobody(monkeypatch):
    """The thread may hear of it late, when that handler has been replaced by the optimizer's."""
    monkeypatch.setattr(deadline, "STOP_SECONDS", 0.0)
    log, calls = SignalLog(), []
    log.install(signal.SIGTERM)
    try:
        watch = deadline.Deadline(log, calls.append)
        watch._outlet.send(bytes([signal.SIGTERM]))  # as if a signal had come and been handled
        while not watch.dismissed:
            time.sleep(0.01)
        watch._on_nudge(deadline.NUDGE, None)  # one that was sent meanwhile and is handled late
        signal.raise_signal(signal.SIGTERM)
        while not calls and watch.dismissed == 1:
            time.sleep(0.01)
        watch.close()
    finally:
        log.uninstall()
    assert log.received == [signal.SIGTERM]
    assert watch.dismissed == 1
