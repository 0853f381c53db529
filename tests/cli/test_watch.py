"""`basegraph watch`: runs as their folders say they stand."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack

import pytest
from rich.console import Console

from basegraph.cli import watch
from basegraph.storage.lock import LOCK_FILE, locked
from basegraph.training.status import read_status
from support.cli import ok, run, run_here
from support.runs import CHANGES, rows_of, write_run


@pytest.mark.parametrize("width", [24, 40, 80, 160])
def test_one_frame_fits_the_width(tmp_path, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    write_run(tmp_path / "run", 3, changes=CHANGES, nodes=3)
    shown = ok("watch", tmp_path / "run", "--once")
    assert max(map(len, shown.splitlines())) <= width
    for expected in ("53.0%", "worst node", "0.001", "6 MB", "epoch 3 of 4", "stopped"):
        assert expected in shown
    assert ("▁" in shown) == (width >= 80)
    flat = " ".join(shown.split())
    assert "members (3): a, b, d" in flat
    assert "epoch 1.5: 3 → 2 nodes, c left" in flat
    assert "epoch 2.0: 2 → 3 nodes, d joined" in flat
    assert "\x1b" not in shown


def test_text_and_regression_runs_have_their_own_units(tmp_path):
    write_run(tmp_path / "text", 2, measure="bits_per_byte", dataset="text", model="gpt-tiny")
    write_run(tmp_path / "losses", 4, measure="loss")
    assert "test bits per byte" in ok("watch", tmp_path / "text", "--once")
    assert "test loss" in ok("watch", tmp_path / "losses", "--once")
    together = ok("watch", tmp_path, "--once")
    assert "2 runs: 1 stopped, 1 finished" in together
    assert "0.52 bits/byte" in together
    assert "0.54 loss" in together


def test_states_of_runs(tmp_path):
    with ExitStack() as stack:
        for name, epochs in (("ended", 4), ("early", 0), ("held", 2), ("broken", 1)):
            write_run(tmp_path / name, epochs)
        stack.enter_context(locked("out", tmp_path / "held"))
        (tmp_path / "failures").mkdir()
        (tmp_path / "failures" / "broken.txt").write_text("the loss is nan\n")
        shown = json.loads(ok("watch", tmp_path, "--json"))
    states = {one["run"]: one["state"] for one in shown}
    assert states == {
        "broken": "failed",
        "early": "stopped",
        "ended": "finished",
        "held": "running",
    }
    assert [one.get("reason") for one in shown] == ["the loss is nan", None, None, None]
    assert [one["last"] and one["last"]["epoch"] for one in shown] == [1, None, 4, 2]


def test_a_killed_process_of_this_machine_is_gone(tmp_path):
    write_run(tmp_path, 1)
    (tmp_path / LOCK_FILE).write_text(f"process {2**22 + 1} on {os.uname().nodename}\n")
    assert read_status(tmp_path).state == "stopped"
    (tmp_path / LOCK_FILE).write_text("process 7 on elsewhere of job 12\n")
    assert read_status(tmp_path).state == "running"


def test_a_pipe_gets_a_line_per_evaluation_until_the_run_ends(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", 1)
    stack = ExitStack()
    stack.enter_context(locked("out", folder))
    todo = [
        lambda: write_run(folder, 2, changes=CHANGES[:1]),
        lambda: (folder / "metrics.jsonl").write_text(rows_of(2) + '{"epoch": 3, "st'),
        lambda: write_run(folder, 4, changes=CHANGES[:1]),
    ]
    monkeypatch.setattr(watch.time, "sleep", lambda _: todo.pop(0)())
    with stack:
        lines = ok("watch", folder).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        *["epoch 1", "epoch 1.5", "epoch 2", "epoch 3", "epoch 4", str(folder)]
    ]
    assert lines[-1].endswith("finished at epoch 4 of 4")
    assert todo == []


def test_waits_for_the_next_node_0_where_nodes_come_and_go(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", 1, job="7")
    stack = ExitStack()
    stack.enter_context(locked("out", folder))
    taken_over = ExitStack()
    todo = [stack.close, lambda: None, lambda: taken_over.enter_context(locked("out", folder))]
    todo += [
        lambda: write_run(folder, 3, job="7"),
        lambda: (taken_over.close(), write_run(folder, 4)),
    ]
    monkeypatch.setattr(watch.time, "sleep", lambda _: todo.pop(0)())
    assert ok("watch", folder, "--patience", "3600").endswith("finished at epoch 4 of 4\n")
    assert todo == []
    write_run(folder, 2, job="7")
    assert ok("watch", folder, "--patience", "0").endswith("stopped at epoch 2 of 4\n")


def test_frames_on_a_terminal_and_a_quiet_end(tmp_path, monkeypatch):
    for name in "abcdefgh":
        write_run(tmp_path / name, 2)
    monkeypatch.setattr(
        watch, "Console", lambda: Console(force_terminal=True, width=60, height=8, _environ={})
    )

    def stop(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(watch.time, "sleep", stop)
    with locked("out", tmp_path):
        done = run_here("watch", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "8 runs: 8 stopped" in done.stdout
    assert "and 4 more" in done.stdout
    done = run_here("watch", tmp_path / "a")
    assert done.stdout.count("test accuracy") >= 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere"], "RUN='nowhere': is not a folder"),
        (["empty"], "RUN='empty': is not the folder of a run or a sweep"),
        (["begun"], "RUN='begun': has no evaluation yet and is not running"),
        (["run", "--every", "0"], "--every='0': must be from 0.01 to 3600 seconds"),
        (["run", "--patience", "-1"], "--patience='-1': must be a number of seconds ≥ 0"),
        (["broken"], "metrics.jsonl: line 1 is broken"),
    ],
)
def test_mistakes(arguments, complaint, tmp_path):
    (tmp_path / "empty").mkdir()
    write_run(tmp_path / "begun", 0)
    write_run(tmp_path / "run", 1)
    (write_run(tmp_path / "broken", 1) / "metrics.jsonl").write_text("{}\n{}\n")
    done = run_here("watch", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1


def test_needs_no_torch(tmp_path):
    write_run(tmp_path, 4)
    (tmp_path / "torch.py").write_text("raise ImportError('torch is loaded')\n")
    done = run("watch", tmp_path, "--once", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
