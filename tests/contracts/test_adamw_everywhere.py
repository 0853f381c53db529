"""AdamW gives the same numbers wherever it runs: torch's own, simulated, and on processes."""

from __future__ import annotations

import pytest

from support.forks import nodes_of

SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("n", "spec"),
    [(3, "base:k=1"), *(pytest.param(5, spec, marks=SLOW) for spec in ("base:k=1", "ring"))],
)
def test_adamw_is_torchs_with_gossip(n, spec):
    """Both orders, local steps, and with an outer optimizer, by gossip and by all-reduce."""
    done = nodes_of(n, "same_adamw.py", spec)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    assert done.stdout.count("same:") == 4 * 8
