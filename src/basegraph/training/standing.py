"""How far a run has come, with whatever number of nodes, and the record of their changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from basegraph.training.metrics import Metrics


def epochs_of(facts: dict[str, Any]) -> Fraction:
    """How far a run had come, in passes over the data.

    >>> epochs_of({"step": 9, "steps_per_epoch": 6})
    Fraction(3, 2)
    """
    return Fraction(facts["step"], facts["steps_per_epoch"])


def merged(rows: list[Metrics], others: list[Metrics]) -> list[Metrics]:
    """The rows of both, one per epoch.

    >>> [row["epoch"] for row in merged([{"epoch": 1}, {"epoch": 3}], [{"epoch": 1}, {"epoch": 2}])]
    [1, 2, 3]
    """
    by_epoch = {row["epoch"]: row for row in [*others, *rows]}
    return [by_epoch[epoch] for epoch in sorted(by_epoch)]


def change_of_nodes(
    before: list[str], members: list[str], step: int, epoch: float, *, left: Sequence[str] = ()
) -> dict[str, Any]:
    """A change of the nodes as a line of restarts.jsonl.

    Args:
        before: The names of the nodes before.
        members: Their names now.
        step: Steps made, counted as with the present number of nodes.
        epoch: Passes over the data so far.
        left: Those that were lost, if others have their names now.

    Example:
        >>> change = change_of_nodes(["a", "b"], ["b", "c"], 40, 2.5)
        >>> change["joined"], change["left"], change["nodes"]
        (['c'], ['a'], 2)

    """
    stayed = [name for name in members if name in before and name not in left]
    return {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "step": step,
        "epoch": round(epoch, 3),
        "nodes_before": len(before),
        "nodes": len(members),
        "members_before": before,
        "members": members,
        "joined": [name for name in members if name not in stayed],
        "left": [name for name in before if name not in stayed],
    }


def has_ended(facts: dict[str, Any]) -> bool:
    """Whether a checkpoint is of the end of its run."""
    return epochs_of(facts) >= int(facts["config"]["epochs"])
