"""Loggers of a run: what they get, and a run that goes on without one."""

from __future__ import annotations

import pytest

import basegraph as bg

SMALL = bg.RunConfig(nodes=4, epochs=2, evaluate_every=1)


class Memory:
    def __init__(self) -> None:
        self.rows: dict[int, dict[str, float]] = {}
        self.closed = 0

    def log(self, step, values):
        assert not self.closed
        self.rows[step] = dict(values)

    def close(self):
        self.closed += 1


class Broken(Memory):
    def log(self, step, values):
        raise ConnectionError("no route to host")


def test_a_logger_gets_every_row_and_is_closed(tmp_path):
    memory, other = Memory(), Memory()
    rows = bg.train(SMALL, tmp_path / "run", loggers=[memory, other])
    expected = {
        row["step"]: {k: v for k, v in row.items() if k not in ("epoch", "step")} for row in rows
    }
    assert memory.rows == other.rows == expected
    assert len(expected) == 2
    assert memory.closed == other.closed == 1


def test_a_run_goes_on_without_a_logger_that_fails(tmp_path):
    broken, memory = Broken(), Memory()
    with pytest.warns(UserWarning, match="Broken failed and is disabled: ConnectionError") as said:
        bg.train(SMALL, tmp_path / "run", loggers=[broken, memory])
    assert len(said) == 1
    assert len(memory.rows) == 2
    assert (broken.closed, memory.closed) == (0, 1)


def test_loggers_are_closed_when_a_run_is_refused(tmp_path):
    memory = Memory()
    with pytest.raises(bg.InvalidArgument, match="no run to resume"):
        bg.train(SMALL, tmp_path / "run", resume=True, loggers=[memory])
    assert memory.closed == 1


def test_what_is_no_logger_is_refused_before_training(tmp_path):
    with pytest.raises(bg.InvalidArgument, match=r"loggers=.*must have log\(step, values\)"):
        bg.train(SMALL, tmp_path / "run", loggers=[print])
    assert not (tmp_path / "run").exists()
