"""How a script with an optimizer of nodes ends."""

from __future__ import annotations

import sys

import pytest

from support.launch import torchrun


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_destroying_the_group_ends_its_threads():
    done = torchrun(2, "quiet_exit.py")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("True before, 0 after") == 2
