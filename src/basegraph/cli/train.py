"""`basegraph train`: n nodes on one machine, each with its own data."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from basegraph import launched
from basegraph.algorithms.catalog import parse_algorithm
from basegraph.cli.arguments import (
    complete_algorithm,
    complete_topology,
    number,
    refuse_torchrun,
)
from basegraph.cli.output import COUNT, Bar
from basegraph.cli.scores import said, said_of_evaluation, unit_of
from basegraph.errors import InvalidArgument
from basegraph.specs import refuse_twice
from basegraph.training.config import DEFAULTS, SETTINGS, RunConfig
from basegraph.training.config_files import read_saved, read_toml

if TYPE_CHECKING:
    from basegraph.training.metrics import Metrics


COMPLETIONS = {"topology": complete_topology, "algorithm": complete_algorithm}
"""What a shell completes, by the name of the field."""


def with_config_flags(command: Callable[..., None]) -> Callable[..., None]:
    """The command with a flag for every field of `RunConfig` in place of its **flags."""
    signature = inspect.signature(command, eval_str=True)
    parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    for name, setting in SETTINGS.items():
        flags = [f"--{name.replace('_', '-')}", *(["-n"] if name == "nodes" else [])]
        default = DEFAULTS[name]
        kind = type(default).__name__.upper()
        option = typer.Option(
            *flags,
            metavar=kind,
            help=f"{setting.help} [{default}]",
            autocompletion=COMPLETIONS.get(name),
        )
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[str | None, option],
            )
        )

    def run(**values: Any) -> None:
        command(**values)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


@with_config_flags
def train(
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="the run's folder")],
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="a .toml file of fields; flags override it")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="continue the run in the folder")
    ] = False,
    engine: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="stacked (all nodes in one process) or distributed (torchrun, launch)",
        ),
    ] = "stacked",
    timeout: Annotated[
        str | None,
        typer.Option(
            metavar="S", help="seconds after which a distributed node counts as lost [300]"
        ),
    ] = None,
    log: Annotated[
        str, typer.Option(metavar="NAMES", help="also log to tensorboard, wandb or mlflow")
    ] = "",
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="the same as --log tensorboard")
    ] = False,
    **flags: str | None,
) -> None:
    """Train n nodes over a topology, each with its own data, on one device or one per process.

    Example: basegraph train --topology base:k=1 --nodes 25 --alpha 0.1 --out runs/demo

    Example: torchrun --nproc-per-node 5 -m basegraph train --engine distributed --out runs/five

    Example: basegraph launch --nodes 5 -m basegraph train --engine distributed --out runs/live
    """
    start = _start(engine, out)
    if timeout is not None and not start.distributed:
        raise InvalidArgument("--timeout", timeout, "requires --engine distributed")
    resume = resume or start.continues(out)
    given = {name: parsed(name, text) for name, text in flags.items() if text is not None}
    settings = merged(_fields_of_file(config, out if resume else None), given)
    chosen = RunConfig(**start.with_nodes(settings, given, resume=resume))
    if not start.distributed and resume and any((out / "nodes").glob("node-*.safetensors")):
        raise InvalidArgument(
            "--out", str(out), "was interrupted by a lost node: resume with --engine distributed"
        )
    from basegraph.cli.trackers import Trackers
    from basegraph.training.watcher import Watcher

    # Where nodes join and leave, any of them may become node 0, which calls the watcher.
    speaks = not start.distributed or os.environ.get("RANK", "0") == "0"
    names = f"{log},tensorboard" if tensorboard else log
    finished: list[Sequence[Mapping[str, Any]]] = []
    with (
        closing(Trackers(names if speaks else "")) as trackers,
        _Display(speaks and not start.live) as display,
    ):

        def started(facts: Mapping[str, Any]) -> None:
            display.started(facts)
            trackers.started(out, asdict(chosen))

        def evaluated(row: Metrics) -> None:
            display.evaluated(row)
            trackers.evaluated(row)

        watcher = Watcher(
            display.stepped, evaluated, started, ended=finished.append, noted=display.say
        )
        if start.distributed:
            from basegraph.training.elastic import train_distributed

            patience = {} if timeout is None else {"timeout": number("--timeout", timeout)}
            train_distributed(chosen, out, resume=resume, watcher=watcher, **patience)
        else:
            from basegraph.training._train import train as train_here

            train_here(chosen, out, resume=resume, watcher=watcher)
    for rows in finished[-1:]:
        reached = f"{said(rows[-1])}, " if rows else ""
        print(f"done: {reached}run in {out}")


class _Start(NamedTuple):
    """How the nodes were started: all in this process, by torchrun, or by basegraph launch."""

    distributed: bool
    live: bool = False
    size: int = 0
    """How many nodes were started; 0 if that is open."""
    restarted: bool = False
    """Whether the launcher may have started this node again."""
    job: str = ""

    def continues(self, out: Path) -> bool:
        """Whether this is a node that was started again, and the run in the folder is its job's."""
        if not self.restarted:
            return False
        from basegraph.training.folder import belongs_to

        return belongs_to(out, self.job)

    def with_nodes(
        self, settings: dict[str, Any], given: dict[str, Any], *, resume: bool
    ) -> dict[str, Any]:
        """The settings with the number of nodes that there is; another one is refused."""
        if not self.distributed:
            return settings
        asked = settings.get("nodes", self.size)
        if asked != self.size and not (resume or self.restarted):
            raise InvalidArgument("--nodes", asked, f"torchrun has started {self.size} processes")
        if self.live and self.size and given.get("nodes", self.size) != self.size:
            raise InvalidArgument(
                "--nodes", asked, f"basegraph launch has started {self.size} nodes"
            )
        return {**settings, "nodes": max(1, self.size)}


def _start(engine: str, out: Path) -> _Start:
    """How this process was started, which must go with the engine."""
    if engine not in ("stacked", "distributed"):
        raise InvalidArgument("--engine", engine, "must be stacked or distributed")
    one_per_process = (
        f"torchrun --nproc-per-node {os.environ.get('LOCAL_WORLD_SIZE', 'N')} "
        f"-m basegraph train --engine distributed --out {out}"
    )
    if engine == "stacked":
        remedy = f"start it without torchrun, or with a node per process: {one_per_process}"
        refuse_torchrun("--engine", engine, remedy)
        return _Start(distributed=False)
    from basegraph.engines.distributed.membership.torchrun import job, restarts
    from basegraph.training.elastic import NotLaunched, world_size

    if launched.membership_is_live():
        return _Start(True, True, launched.expected(), True, launched.job())
    try:
        return _Start(True, False, world_size(), restarts() > 0, job())
    except NotLaunched:
        remedy = f"needs a process per node: {one_per_process}"
        raise InvalidArgument("--engine", engine, remedy) from None


def _fields_of_file(config: Path | None, run: Path | None) -> dict[str, Any]:
    """What the configuration file sets, or the one of the run that is resumed."""
    if config is not None:
        return read_toml(config)
    saved = None if run is None else run / "config.toml"
    return {} if saved is None or not saved.is_file() else read_saved(saved)


def merged(file: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """The fields of a configuration file and those of flags, which win, also as method options.

    An option in the spec of --algorithm replaces the file's field of that name, and is refused
    beside a flag of that name.
    """
    spec = flags.get("algorithm", "")
    options = parse_algorithm(spec)[1] if spec else {}
    refuse_twice(spec, options, flags)
    return {name: value for name, value in file.items() if name not in options} | flags


def parsed(name: str, text: str) -> object:
    """A flag's text as its field's type; what does not parse is left for RunConfig to refuse."""
    kind = type(DEFAULTS[name])
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return kind(text)
    except ValueError:
        return text


class _Display:
    """Progress on a terminal's standard error, a line per evaluation anywhere."""

    def __init__(self, speaks: bool) -> None:
        self.bar = Bar(f"step {COUNT}", "{task.fields[facts]}", shown=speaks, facts="")
        self.say = self.bar.say
        self.began: tuple[float, int] | None = None
        self.quality = ""
        self.last_evaluation: dict[str, int] = {}

    def __enter__(self) -> _Display:
        self.bar.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.__exit__(*exception)

    def started(self, facts: Mapping[str, Any]) -> None:
        """Say what is about to be trained on."""
        damping = f", d2 damped by τ = {facts['damping']}" if "damping" in facts else ""
        samples, labels = "samples", "labels"
        if "context" in facts:
            samples = f"windows of {facts['context']} tokens"
        if "domains" in facts:
            labels = f"shares of {facts['domains']} domains"
        self.say(
            f"{facts['samples_per_node']} {samples} per node, heterogeneity "
            f"{facts['heterogeneity']:.2f} (mean total-variation distance of the nodes' {labels}), "
            f"{facts['parameters']} parameters, {facts['device']}{damping}"
        )
        self.last_evaluation = facts["last_evaluation"]
        used = _fewer(facts["evaluation"], self.last_evaluation)
        if used:
            self.say(
                f"evaluations before the last use {used}, drawn from the seed; "
                "--evaluate-samples 0 --evaluate-nodes 0 uses all"
            )

    def stepped(self, step: int, total: int, loss: float) -> None:
        """Move the bar."""
        now = time.perf_counter()
        if self.began is None:
            self.began = now, step
        rate = (step - self.began[1]) / max(now - self.began[0], 1e-9)
        facts = f"loss {loss:.3f} {self.quality} {rate:.0f} steps/s"
        self.bar.update(completed=step, total=total, facts=facts)

    def evaluated(self, row: Mapping[str, Any]) -> None:
        """Show how good the models are now."""
        unit = unit_of([row])
        score = unit.show(row[f"test_{unit.measure}"])
        self.quality = f"{unit.name} {score} distance {row['consensus_distance']:.2g}"
        line = said_of_evaluation(row)
        used = _fewer(row, self.last_evaluation)
        self.say(f"{line} (with {used})" if used else line)


def _fewer(used: Mapping[str, Any], last: dict[str, int]) -> str:
    """What an evaluation uses, where that is less than the last one will use."""
    return ", ".join(
        f"{used[name]} of {count} {name.replace('evaluated_', '').replace('_', ' ')}"
        for name, count in last.items()
        if used[name] < count
    )
