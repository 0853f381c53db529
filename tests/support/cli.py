"""The command line, in this process or in one of its own."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout

import pytest

from basegraph import cli


def run(*arguments, cwd=None, env=None):
    """The command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "basegraph", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=env,
    )


def run_here(*arguments, cwd="."):
    """As `run`, in this process: an interpreter that is started costs more than most commands."""
    out, err, argv = io.StringIO(), io.StringIO(), [*map(str, arguments)]
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        chdir(cwd),
        pytest.raises(SystemExit) as exit_request,
    ):
        cli.main(argv)
    code = exit_request.value.code
    return subprocess.CompletedProcess(argv, code, out.getvalue(), err.getvalue())


def ok(*arguments, by=run_here, **options):
    """What a command prints that must succeed."""
    done = by(*arguments, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout
