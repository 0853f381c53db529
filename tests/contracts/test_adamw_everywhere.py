"""AdamW gives the same numbers wherever it runs: torch's own, simulated, and on processes."""

from __future__ import annotations

import pytest

from support.forks import nodes_of


@pytest.mark.parametrize("n", [3, 5])
def test_adamw_is_torchs_with_gossip(n):
    done = nodes_of(n, "same_adamw.py")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    assert done.stdout.count("same:") == 4 * 8
