"""The tables of a report, as HTML: what every reader sees, also without a script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from basegraph.training.config import SETTINGS
from basegraph.training.status import RunStatus

PARTS = {"test": "", "averaged": "_averaged", "worst": "_worst"}


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: frozenset[str] = frozenset()
) -> str:
    """A table of texts; columns of numbers are aligned right."""
    kinds = [' class="number"' if name in numbers else "" for name in head]
    heads = "".join(f"<th{k}>{escape(name)}</th>" for name, k in zip(head, kinds, strict=True))
    lines = [
        "".join(f"<td{k}>{escape(cell)}</td>" for cell, k in zip(row, kinds, strict=True))
        for row in rows
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def summary(runs: Sequence[RunStatus], measure: str) -> str:
    """Where each run stands."""
    scores = [*PARTS, "validation"]
    tokens = any("tokens" in run.rows[-1] for run in runs)
    spent = ["distance", *(["M tokens"] if tokens else []), "MB per node", "seconds"]
    head = ["run", "state", "topology", "algorithm", "nodes", "epoch", *scores, *spent]
    return table(head, [_line(run, measure, tokens) for run in runs], numbers=frozenset(head[4:]))


def _line(run: RunStatus, measure: str, tokens: bool) -> list[str]:
    last: Mapping[str, Any] = run.rows[-1]
    keys = [f"test_{measure}{part}" for part in PARTS.values()] + [f"validation_{measure}"]
    seen = [f"{last['tokens'] / 1e6:.4g}" if "tokens" in last else "–"] if tokens else []
    return [
        run.name,
        f"{run.state}: {run.reason}" if run.reason else run.state,
        run.config["topology"],
        run.config["algorithm"],
        str(run.nodes),
        f"{run.epoch} of {run.config['epochs']}",
        *[_score(last.get(key), measure) for key in keys],
        f"{last['consensus_distance']:.2g}",
        *seen,
        f"{last['bytes_per_node'] / 1e6:.4g}",
        f"{last['seconds']:.4g}",
    ]


def _score(value: float | None, measure: str) -> str:
    if value is None:
        return "–"
    return f"{value:.1%}" if measure == "accuracy" else f"{value:.4g}"


def changes(runs: Sequence[RunStatus]) -> str:
    """Who came and went, run by run; nothing where the nodes have stayed."""
    rows = [
        [
            run.name,
            str(change.get("epoch", "–")),
            str(change.get("time", "–")).partition(".")[0].replace("T", " "),
            f"{change.get('nodes_before', '?')} → {change.get('nodes', '?')}",
            ", ".join(map(str, change.get("left", []))) or "–",
            ", ".join(map(str, change.get("joined", []))) or "–",
        ]
        for run in runs
        for change in run.changes
    ]
    if not rows:
        return ""
    body = table(["run", "epoch", "time (UTC)", "nodes", "left", "joined"], rows)
    return f'<section><h2>Members</h2><div class="scroll">{body}</div></section>'


def settings(runs: Sequence[RunStatus]) -> str:
    """The settings in which the runs differ, and, folded away, those that they share."""
    values = {name: [_shown(run.config.get(name)) for run in runs] for name in SETTINGS}
    varied = {name: cells for name, cells in values.items() if len(set(cells)) > 1}
    shared = {name: cells[0] for name, cells in values.items() if name not in varied}
    parts = []
    if varied:
        differing = table(["field", *[run.name for run in runs]], _rows(varied))
        parts.append(f'<div class="scroll">{differing}</div>')
    what = "The other fields, which all runs share" if varied else "All fields"
    helps = [[name, value, SETTINGS[name].help] for name, value in shared.items()]
    body = table(["field", "value", "what it is"], helps).replace("<td>", '<td class="long">')
    opened = "" if varied else " open"
    parts.append(f"<details{opened}><summary>{what}</summary>{body}</details>")
    return "".join(parts)


def _rows(values: Mapping[str, Sequence[str]]) -> list[list[str]]:
    return [[name, *cells] for name, cells in values.items()]


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def provenance(runs: Sequence[RunStatus]) -> str:
    """What each run came from: command, code, machine, data, and what was measured at its start."""
    parts = []
    for run in runs:
        origin = {"folder": str(run.path), **run.origin}
        measured = origin.pop("measured", {})
        rows = [[name, _text(value)] for name, value in {**origin, **measured}.items()]
        body = table(["", ""], rows).replace("<td>", '<td class="long">')
        body = body.replace("<thead><tr><th></th><th></th></tr></thead>", "")
        opened = " open" if len(runs) == 1 else ""
        parts.append(f"<details{opened}><summary>{escape(run.name)}</summary>{body}</details>")
    return "".join(parts)


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(part)}" for name, part in value.items())
    return str(value)
