"""How a script with an optimizer of nodes ends."""

from __future__ import annotations

import sys

import pytest

from support.forks import nodes_of
from support.launch import torchrun


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
@pytest.mark.parametrize("forks", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_destroying_the_group_ends_its_threads(forks):
    done = nodes_of(2, "quiet_exit.py", teardown=True) if forks else torchrun(2, "quiet_exit.py")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("True before, 0 after") == 2
