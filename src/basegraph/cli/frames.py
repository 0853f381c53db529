"""What `basegraph watch` shows: one run in full, or a line for each of several."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from basegraph.cli.scores import unit_of
from basegraph.training.status import FAILED, FINISHED, RUNNING, STOPPED, RunStatus

BLOCKS = "▁▂▃▄▅▆▇█"
MARKS = {RUNNING: "●", FINISHED: "✓", STOPPED: "■", FAILED: "✗"}
STYLES = {RUNNING: "green", FINISHED: "cyan", STOPPED: "yellow", FAILED: "red"}
ORDER = (RUNNING, FAILED, STOPPED, FINISHED)
"""In which runs are listed: those that go on first."""
NUMBERS_WIDTH = 34
"""Columns that a run's names of metrics and their values take."""
LEAST_CURVE = 8
LAST_CHANGES = 5
"""Changes of the nodes that are shown."""
DISTANCE = "consensus_distance"
MOVES = ("left", "joined")


def sparkline(values: Iterable[float], width: int, *, logarithmic: bool = False) -> str:
    """Values as a line of blocks, at most so many; of more, some are left out.

    >>> sparkline([1, 2, 4, 8], 10)
    '▁▂▄█'
    >>> sparkline([1e-4, 1e-3, 1e-2], 10, logarithmic=True)
    '▁▅█'
    """
    scale = (lambda v: math.log10(v) if v > 0 else -math.inf) if logarithmic else float
    shown = [scale(value) for value in values]
    if len(shown) > width:
        shown = [shown[round(i * (len(shown) - 1) / (width - 1))] for i in range(width)]
    finite = [value for value in shown if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    span = (high - low) or 1.0
    top = len(BLOCKS) - 1
    return "".join(
        BLOCKS[round(top * (value - low) / span)]
        if math.isfinite(value)
        else (BLOCKS[0] if value == -math.inf else "×")
        for value in shown
    )


def duration(seconds: float) -> str:
    """Seconds as hours, minutes and seconds.

    >>> duration(3725.4), duration(59)
    ('1:02:05', '0:59')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def amount(count: float) -> str:
    """Bytes in a unit that suits them.

    >>> amount(2_340_000), amount(5.1e10)
    ('2.34 MB', '51 GB')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"


def left(status: RunStatus) -> float | None:
    """About how many seconds a run has left, by the pace between its last evaluations."""
    rows = status.rows
    if not rows or status.state != RUNNING:
        return None
    earlier = rows[-2] if len(rows) > 1 else {"epoch": 0, "seconds": 0.0}
    epochs = rows[-1]["epoch"] - earlier["epoch"]
    taken = rows[-1]["seconds"] - earlier["seconds"]
    return (int(status.config["epochs"]) - status.epoch) * taken / max(1, epochs)


def state_of(status: RunStatus) -> Text:
    """The state of a run as a colored word."""
    return Text(f"{MARKS[status.state]} {status.state}", style=STYLES[status.state])


def one_run(status: RunStatus, width: int) -> RenderableType:
    """Everything about a run, for a terminal of this width."""
    config = status.config
    heading = Table.grid(expand=True)
    heading.add_column(ratio=1, overflow="ellipsis", no_wrap=True)
    heading.add_column(justify="right", no_wrap=True)
    heading.add_row(Text(status.name, style="bold"), state_of(status))
    alpha = f", α={config['alpha']:g}" if config["split"] == "dirichlet" else ""
    about = (
        f"{config['topology']} on {status.nodes} nodes, {config['algorithm']}, "
        f"{config['model']} on {config['dataset']}{alpha}, lr={config['lr']:g}, "
        f"seed {config['seed']}"
    )
    parts: list[RenderableType] = [heading, Text(about, style="dim"), _progress(status, width)]
    if status.reason:
        parts.append(Text(status.reason, style="red"))
    parts.append(_metrics(status, width) if status.rows else Text("no evaluation yet"))
    parts += _members(status)
    return Group(*parts)


def _progress(status: RunStatus, width: int) -> RenderableType:
    epochs = int(status.config["epochs"])
    words = [f"epoch {status.epoch} of {epochs}"]
    if status.rows:
        words.append(duration(status.rows[-1]["seconds"]))
    remaining = left(status)
    if remaining is not None:
        words.append(f"about {duration(remaining)} left")
    text = ", ".join(words)
    room = width - len(text) - 2
    if room < LEAST_CURVE:
        return Text(text)
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_row(ProgressBar(epochs, status.epoch, width=min(40, room)), text)
    return line


def _metrics(status: RunStatus, width: int) -> Table:
    """The last value of every metric, with its curve where the width allows it."""
    rows, unit = status.rows, unit_of(status.rows)
    score = f"test_{unit.measure}"
    lines: list[tuple[str, str, Callable[[float], str]]] = [
        (f"test {unit.name}", score, unit.show),
        ("  averaged model", f"{score}_averaged", unit.show),
        ("  worst node", f"{score}_worst", unit.show),
        ("training loss", "train_loss", "{:.4g}".format),
        ("consensus distance", DISTANCE, "{:.2g}".format),
        ("sent per node", "bytes_per_node", amount),
        ("tokens seen", "tokens", lambda count: f"{count / 1e6:.4g} M"),
    ]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="ellipsis", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    room = min(60, width - NUMBERS_WIDTH)
    if room >= LEAST_CURVE:
        table.add_column(style="cyan", no_wrap=True)
    for name, key, show in lines:
        values = [float(row[key]) for row in rows if key in row]  # type: ignore[literal-required]
        if not values:
            continue
        curve = sparkline(values, max(room, LEAST_CURVE), logarithmic=key == DISTANCE)
        table.add_row(name, show(values[-1]), *([curve] if room >= LEAST_CURVE else []))
    return table


def _members(status: RunStatus) -> list[RenderableType]:
    """Who the nodes are, and how that has changed lately."""
    if not status.changes:
        return []
    names = ", ".join(status.members)
    lines: list[RenderableType] = [Text(f"members ({status.nodes}): {names}")]
    hidden = len(status.changes) - LAST_CHANGES
    if hidden > 0:
        lines.append(Text(f"  {hidden} earlier changes", style="dim"))
    lines += [Text(f"  {said_of_change(c)}") for c in status.changes[-LAST_CHANGES:]]
    return lines


def said_of_change(change: dict[str, Any]) -> str:
    """A change of the nodes as a line.

    >>> said_of_change({"epoch": 2.5, "nodes_before": 3, "nodes": 2, "left": ["c"], "joined": []})
    'epoch 2.5: 3 → 2 nodes, c left'
    """
    moves = [f", {', '.join(map(str, change[how]))} {how}" for how in MOVES if change.get(how)]
    counts = f"{change.get('nodes_before', '?')} → {change.get('nodes', '?')} nodes"
    return f"epoch {change.get('epoch', '?')}: {counts}{''.join(moves)}"


def several_runs(statuses: Sequence[RunStatus], width: int, most: int | None = None) -> Group:
    """A line for each run, those that go on first; of more than `most`, some are only counted."""
    ordered = sorted(statuses, key=lambda s: (ORDER.index(s.state), s.name))
    counts = {state: sum(s.state == state for s in statuses) for state in ORDER}
    summary = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    shown = ordered[:most]
    cells = [_cells(status) for status in shown]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("run", overflow="ellipsis", no_wrap=True)
    columns = _columns(shown, cells, width)
    for name in columns:
        table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
    for status, values in zip(shown, cells, strict=True):
        state = Text(values["state"], style=STYLES[status.state])
        table.add_row(Text(status.name), state, *[values[name] for name in columns[1:]])
    parts: list[RenderableType] = [Text(f"{len(statuses)} runs: {summary}", style="bold")]
    parts += [table] if shown else []
    if len(ordered) > len(shown):
        parts.append(Text(f"and {len(ordered) - len(shown)} more", style="dim"))
    parts += [Text(f"{s.name}: {s.reason}", style="red") for s in shown if s.reason]
    return Group(*parts)


def _columns(runs: Sequence[RunStatus], cells: list[dict[str, str]], width: int) -> list[str]:
    """What there is room for beside the names of the runs: the state at least."""
    room = width - min(30, max((len(status.name) for status in runs), default=0))
    columns: list[str] = []
    for name in cells[0] if cells else ():
        room -= 2 + max(len(name), *(len(values[name]) for values in cells))
        if columns and room < 0:
            break
        columns.append(name)
    return columns


def _cells(status: RunStatus) -> dict[str, str]:
    """A run's line, by column, the most important first."""
    last: dict[str, Any] = dict(status.rows[-1]) if status.rows else {}
    unit = unit_of(status.rows)
    nodes, averaged = (last.get(f"test_{unit.measure}{whose}") for whose in ("", "_averaged"))
    units = "" if unit.measure == "accuracy" else f" {unit.column}"
    return {
        "state": f"{MARKS[status.state]} {status.state}",
        "epoch": f"{status.epoch}/{status.config['epochs']}",
        "test": "–" if nodes is None else f"{unit.show(nodes)}{units}",
        "averaged": "–" if averaged is None else unit.show(averaged),
        "distance": f"{last['consensus_distance']:.2g}" if last else "–",
        "sent": amount(last["bytes_per_node"]) if last else "–",
        "nodes": str(status.nodes),
    }
