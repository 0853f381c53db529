"""A folder is one process's at a time, and nobody's when that process is gone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from basegraph import InvalidArgument
from basegraph.storage.lock import LOCK_FILE, locked

HOLD = """
import os, sys, time
from pathlib import Path
from basegraph.storage.lock import locked
with locked("--out", Path(sys.argv[1])):
    forks = "fork" in sys.argv
    if not forks or os.fork() == 0:  # the child speaks: it has let go of the lock by then
        print(os.getpid() if forks else 0, flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("how", ["alone", "fork"])
def test_a_killed_holder_lets_go(how, tmp_path):
    """A child that it has forked may live on."""
    command = [sys.executable, "-c", HOLD, str(tmp_path), how]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        said = f"is in use by process {holder.pid} on {socket.gethostname()}$"
        with pytest.raises(InvalidArgument, match=said), locked("--out", tmp_path):
            pass
        holder.kill()
        holder.wait()
        assert (tmp_path / LOCK_FILE).exists()
        with locked("--out", tmp_path):
            pass
        assert list(tmp_path.iterdir()) == []
    finally:
        holder.kill()
        if child:
            os.kill(child, signal.SIGKILL)
        holder.communicate()


def test_a_process_is_refused_by_itself(tmp_path):
    said = f"is in use by process {os.getpid()} on"
    with locked("--out", tmp_path):
        for _ in range(2):
            with pytest.raises(InvalidArgument, match=said), locked("--out", tmp_path / "."):
                pass
    with locked("--out", tmp_path):
        pass


def test_folders_that_were_made_for_nothing_are_removed(tmp_path):
    with pytest.raises(KeyError), locked("--out", tmp_path / "a" / "b"):
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with locked("--out", tmp_path / "a" / "b"):
        (tmp_path / "a" / "file").touch()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["file"]


def test_a_folder_that_another_has_made_anew_stays_locked(tmp_path):
    """Somebody removes the folder of a run that is going."""
    folder, lock = tmp_path / "run", tmp_path / "run" / LOCK_FILE
    with locked("--out", folder):
        lock.unlink()
        folder.rmdir()
        with locked("--out", folder):
            pass
        folder.mkdir()
        lock.write_text("of another process\n")
    assert lock.exists()


@pytest.mark.parametrize("place", ["file", "file/below", "long" * 100])
def test_what_cannot_be_a_folder_is_one_line(place, tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(InvalidArgument, match=r"^--out=.*: cannot be used: "),
        locked("--out", tmp_path / place),
    ):
        pass


CROWD = """
import os, sys
from pathlib import Path
from basegraph import InvalidArgument
from basegraph.storage.lock import locked
folder, inside = Path(sys.argv[1]) / "run", Path(sys.argv[1]) / "inside"
print("ready", flush=True)
sys.stdin.readline()
entered = 0
while entered < 300:
    try:
        with locked("--out", folder):
            os.close(os.open(inside, os.O_CREAT | os.O_EXCL))  # fails if another is here
            inside.unlink()
            entered += 1
    except InvalidArgument as refusal:
        assert "is in use by" in str(refusal), refusal
"""


def test_never_two_at_once_although_the_file_membership_is_live(tmp_path):
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", CROWD, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for one in crowd:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in crowd:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    for one in crowd:
        _, errors = one.communicate()
        assert one.returncode == 0, errors
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_processes_of_one_job_take_the_lock_from_each_other(tmp_path):
    """The one before may hang: it finds out, and does not remove the other's file in the end."""
    with locked("--out", tmp_path, "a") as second_to_last:
        with locked("--out", tmp_path, "a") as last:
            assert not second_to_last.held
            assert last.held
            for job in ("", "b", "ba"):
                said = f"is in use by process {os.getpid()} on .* of job a$"
                with pytest.raises(InvalidArgument, match=said), locked("--out", tmp_path, job):
                    pass
            assert last.held
        assert not (tmp_path / LOCK_FILE).exists()
    with locked("--out", tmp_path), pytest.raises(InvalidArgument, match="is in use"):
        locked("--out", tmp_path, "a").__enter__()
