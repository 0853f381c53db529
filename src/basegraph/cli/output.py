"""Printing: rich tables and progress on a terminal, plain text in a pipe."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
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
    with Bar(label, COUNT, total=len(items)) as bar:
        for done, item in enumerate(items, start=1):
            yield item
            bar.update(completed=done)


COUNT = "{task.completed:.0f}/{task.total:.0f}"
"""How far a bar is, as text."""


class Bar:
    """A progress bar on standard error where that is a terminal, and lines above it.

    Args:
        before: Text before the bar, in rich's format: `{task.completed}`, `{task.fields[name]}`.
        after: Text behind it.
        total: What `completed` is at the end.
        shown: Whether to show a bar on a terminal.
        quiet: Whether `say` prints nothing where no bar is shown.
        **fields: Values of the text's fields.

    """

    def __init__(
        self,
        before: str,
        after: str,
        *,
        total: float = 1.0,
        shown: bool = True,
        quiet: bool = False,
        **fields: Any,
    ) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn(before),
            BarColumn(),
            TextColumn(after),
            TimeRemainingColumn(),
            console=console,
            disable=not (shown and console.is_terminal),
            redirect_stdout=False,
            transient=True,
        )
        self._task = self._progress.add_task("", total=total, **fields)
        self._quiet = quiet

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def update(self, **changes: Any) -> None:
        """Change `completed`, `total` or fields of the text."""
        self._progress.update(self._task, **changes)

    def say(self, line: str) -> None:
        """Print a line: above the bar, or on standard output where no bar is shown."""
        if not self._progress.disable:
            self._progress.console.print(line, highlight=False, markup=False)
        elif not self._quiet:
            print(line, flush=True)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in ("", "–")
    return True
