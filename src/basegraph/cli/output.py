"""Printing: rich tables and progress on a terminal, plain text in a pipe."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

T = TypeVar("T")


def table(columns: list[str], rows: Iterable[Iterable[object]], *, title: str = "") -> None:
    """A table; columns that hold only numbers are aligned right."""
    console = Console()
    cells = [[str(cell) for cell in row] for row in rows]
    numeric = [all(_is_number(row[c]) for row in cells) for c in range(len(columns))]
    if console.is_terminal:
        pretty = Table(title=title or None, title_justify="left", title_style="bold")
        for column, right in zip(columns, numeric, strict=True):
            pretty.add_column(column, justify="right" if right else "left", overflow="fold")
        for row in cells:
            pretty.add_row(*row)
        console.print(pretty)
        return
    if title:
        print(title)
    lines = [columns, *cells]
    widths = [max(len(line[c]) for line in lines) for c in range(len(columns))]
    for line in lines:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        print("  ".join(padded).rstrip())


def as_json(value: object) -> None:
    """A value as JSON on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def progress(items: list[T], label: str) -> Iterator[T]:
    """The items one by one, with a progress bar on a terminal's standard error."""
    console = Console(stderr=True)
    with Progress(
        TextColumn(label),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        redirect_stdout=False,
        transient=True,
    ) as bar:
        yield from bar.track(items)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in ("", "–")
    return True
