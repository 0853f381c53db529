"""`basegraph sweep`: a grid of runs, many at a time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from basegraph.cli.arguments import refuse_torchrun, whole_number
from basegraph.cli.output import Bar, as_json, table
from basegraph.cli.scores import Unit, said, unit_of
from basegraph.errors import InvalidArgument
from basegraph.storage.inputs import read_text
from basegraph.storage.lock import locked

EXECUTORS = ("local", "ray")


def sweep(
    file: Annotated[Path, typer.Argument(metavar="SWEEP.toml", help="fields and a [grid]")],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="where the runs go")],
    resume: Annotated[
        bool, typer.Option("--resume", help="run what is missing in the folder")
    ] = False,
    executor: Annotated[
        str, typer.Option(metavar="local|ray", help="this process, or a Ray cluster")
    ] = "local",
    replicas: Annotated[str, typer.Option(metavar="R", help="runs side by side, at most")] = "64",
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Run a grid of configurations, as many side by side as fit, each in its own folder.

    Example: basegraph sweep sweep.toml --out runs/sweep
    """
    if executor not in EXECUTORS:
        raise InvalidArgument("--executor", executor, "must be local or ray")
    refuse_torchrun("SWEEP", str(file), "start it without torchrun; --executor ray uses a cluster")
    most = whole_number("--replicas", replicas, low=1)
    from basegraph.experiments.grid import read_sweep
    from basegraph.experiments.sweep import SweepFolder, run_sweep

    runs = read_sweep(file)
    with locked("--out", out):
        folder = SweepFolder(out, read_text(file), resume=resume)
        with SweepDisplay(list(folder.left(runs)), quiet=json) as display:
            if executor == "ray":
                from basegraph.experiments.on_ray import run_on_ray

                run_on_ray(runs, folder, most=most, progress=display.progress())
            else:
                run_sweep(runs, folder, most=most, progress=display.progress())
    cramped = folder.out_of_memory().keys() & runs.keys()
    failed = folder.failed() | folder.out_of_memory()
    rows = {name: folder.rows(name) for name in runs}
    ended: dict[str, Mapping[str, Any]] = {n: mine[-1] if mine else {} for n, mine in rows.items()}
    if json:
        as_json([{"run": n, "failed": failed.get(n), **row} for n, row in ended.items()])
    else:
        unit = unit_of(ended.values())
        table(
            ["run", "epoch", f"test {unit.column}", f"validation {unit.column}", "outcome"],
            [_line(name, row, failed.get(name), unit) for name, row in ended.items()],
        )
        print(f"{len(runs) - len(failed)} of {len(runs)} runs done, in {out}")
        print_out_of_memory(len(cramped))
    if failed:
        raise typer.Exit(1)


def print_out_of_memory(count: int) -> None:
    """What is to be done about so many runs that ran out of memory; nothing about none."""
    if count:
        runs, them = ("1 run", "it") if count == 1 else (f"{count} runs", "them")
        print(f"{runs} ran out of memory: --resume tries {them} again, where more is free")


def _line(name: str, row: Mapping[str, Any], failure: str | None, unit: Unit) -> list[object]:
    scores = [unit.cell(row, part, digits=2) for part in ("test", "validation")]
    return [name, row.get("epoch", "–"), *scores, failure or "done"]


class SweepDisplay:
    """One bar for all runs on a terminal's standard error; a line for each that ends."""

    def __init__(self, names: list[str], quiet: bool = False) -> None:
        self.count = len(names)
        self.ended = 0
        self.shares = dict.fromkeys(names, 0.0)
        total = max(1, self.count)
        self.bar = Bar("{task.description}", "{task.percentage:.0f} %", total=total, quiet=quiet)
        self.shown = 0.0

    def __enter__(self) -> SweepDisplay:
        self.bar.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.__exit__(*exception)

    def progress(self) -> Any:
        """What a sweep tells, shown."""
        from basegraph.experiments.sweep import SweepWatcher

        return SweepWatcher(self._stepped, self._finished, self._failed, self._packed)

    def _packed(self, count: int) -> None:
        what = "one run" if count == 1 else f"{count} runs side by side"
        self.bar.update(description=f"{what}, {self.ended} of {self.count} ended")

    def _stepped(self, name: str, step: int, total: int) -> None:
        self.shares[name] = step / total
        now = time.perf_counter()
        if now - self.shown > 0.2:
            self.shown = now
            self.bar.update(completed=sum(self.shares.values()))

    def _finished(self, name: str, row: Mapping[str, Any]) -> None:
        self._end(name, said(row))

    def _failed(self, name: str, reason: str) -> None:
        self._end(name, f"failed: {reason}")

    def _end(self, name: str, what: str) -> None:
        self.ended += 1
        self.shares[name] = 1.0
        self.bar.say(f"[{self.ended}/{self.count}] {name}: {what}")
