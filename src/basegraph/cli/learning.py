"""`basegraph reproduce learning FIGURE`: the paper's training figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from basegraph.algorithms.catalog import parse_algorithms
from basegraph.cli.arguments import Force, number, refuse_torchrun, whole_number, whole_numbers
from basegraph.cli.output import as_json
from basegraph.cli.reproduce import (
    ALONE,
    RESULTS,
    DataDir,
    Device,
    Epochs,
    Out,
    Resume,
    SplitOrder,
    displays,
    folder_of_runs,
    print_rows,
)
from basegraph.cli.sweep import print_out_of_memory
from basegraph.errors import InvalidArgument, unknown
from basegraph.topologies.catalog import parse_specs

if TYPE_CHECKING:
    from basegraph.experiments.figures import Figure
    from basegraph.experiments.learning import Experiment

T = TypeVar("T")
CHECKPOINTS = 20
"""In a run: so many epochs at most are lost when one is stopped."""
MOST_SMALL_RUNS = 48
"""Runs of LeNet side by side."""


def learning(
    figure: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE", help="dsgd, nodes, methods, equistatic, sixteen, resnet or mnist"
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="results/learning-FIGURE-DATASET if not given"
        ),
    ] = None,
    dataset: Annotated[
        str, typer.Option(metavar="NAME", help="cifar10, cifar100, fashion-mnist, ...")
    ] = "",
    data_dir: DataDir = "",
    model: Annotated[str, typer.Option(metavar="SPEC", help="empty: the paper's")] = "",
    settings: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="published (the paper's public code) or ours; empty: the figure's"
        ),
    ] = "",
    epochs: Annotated[str, typer.Option(metavar="E", help="empty: the paper's")] = "",
    nodes: Annotated[
        str, typer.Option("--nodes", "-n", metavar="N", help="empty: the figure's")
    ] = "",
    alpha: Annotated[str, typer.Option(metavar="A,...", help="empty: the figure's")] = "",
    topologies: Annotated[str, typer.Option(metavar="NAME,...", help="empty: the figure's")] = "",
    methods: Annotated[
        str, typer.Option(metavar="NAME,...", help="algorithms; empty: the figure's")
    ] = "",
    lr: Annotated[str, typer.Option(metavar="X,...", help="learning rates")] = "0.1,0.01,0.001",
    seed: Annotated[str, typer.Option(metavar="S", help="seeds; the first chooses η")] = "0:2",
    split_order: SplitOrder = "shuffled",
    precision: Annotated[str, typer.Option(metavar="P", help="tf32, float32 or bf16")] = "tf32",
    device: Device = "auto",
    replicas: Annotated[str, typer.Option(metavar="R", help="runs side by side, at most")] = "8",
    minutes: Annotated[
        str,
        typer.Option(
            metavar="M", help="start no run after so many minutes; 0: only draw what is there"
        ),
    ] = "",
    plan: Annotated[bool, typer.Option("--plan", help="dry run: list the remaining runs")] = False,
    step_ms: Annotated[
        str, typer.Option(metavar="X", help="of a step of 25 nodes, for the time in --plan")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    resume: Resume = False,
    force: Force = False,
) -> None:
    """A training figure of the paper: every topology, η chosen on validation, three seeds.

    Example: basegraph reproduce learning dsgd --dataset fashion-mnist --data-dir data --plan
    """
    refuse_torchrun("reproduce", "learning", ALONE)
    from basegraph.experiments import figures
    from basegraph.experiments.learning import Experiment
    from basegraph.experiments.learning_report import outputs, report
    from basegraph.experiments.reporting import origins

    if figure not in figures.FIGURES:
        raise unknown("FIGURE", figure, figures.FIGURES)
    drawn = _chosen(figures.FIGURES[figure], topologies, methods, alpha, nodes)
    data = dataset or drawn.dataset
    network = model or drawn.model or figures.paper_model(data)
    passes = whole_number("--epochs", epochs, low=1) if epochs else figures.paper_epochs(data)
    fields: dict[str, Any] = {
        "dataset": data,
        "data_dir": data_dir,
        "split_order": split_order,
        "epochs": passes,
        "precision": precision,
        "device": device,
        "checkpoint_every": max(1, passes // CHECKPOINTS),
        **figures.preset(settings or drawn.settings, data, network, passes),
    }
    if drawn.evaluates_all:
        fields |= {"evaluate_samples": 0, "evaluate_nodes": 0}
    rates = [number("--lr", text) for text in lr.split(",")]
    seeds = whole_numbers("--seed", seed, low=0)
    limit = number("--minutes", minutes, low=0) if minutes else None
    side_by_side = whole_number("--replicas", replicas, low=1)
    path = out or RESULTS / f"learning-{figure}-{data.replace(':', '-').replace('/', '-')}"
    step_time = number("--step-ms", step_ms, low=1e-6) if step_ms else None
    if step_ms and not plan:
        raise InvalidArgument("--step-ms", step_ms, "requires --plan")
    with ExitStack() as stack:
        opened = folder_of_runs(path, outputs(drawn), force=force or resume, writes=not plan)
        folder = stack.enter_context(opened)
        progress = stack.enter_context(displays(quiet=json))
        stack.enter_context(_named(settings or drawn.settings))
        experiment = Experiment(folder, drawn, fields, rates, seeds, resume=resume or plan)
        if plan:
            _print_plan(experiment, step_time, json)
            return
        experiment.make(side_by_side=side_by_side, minutes=limit, progress=progress)
        table, claims, missing = report(figure, experiment)
        folder.provenance(f"{data}, seeds {seed}, split {split_order}", runs=origins(folder))
    experiment.require_any()
    if json:
        as_json(
            {
                "table": table,
                "claims": claims,
                "missing": missing,
                "out_of_memory": [key.name for key in experiment.out_of_memory()],
                "left_out": experiment.left_out(),
                "not_asked_for": experiment.names_not_asked_for(),
            }
        )
        return
    if table:
        print_rows(table, f"{data}, {fields['model']}: test accuracy of the nodes' own models", "–")
        print_rows(claims, "the paper's claims, by differences within seeds", "–")
    _print_left_out(experiment)
    if missing:
        left, following = experiment.count_left(), folder / "missing.txt"
        print(f"{left} of {experiment.count()} runs are missing; those that come next: {following}")
    print_out_of_memory(len(experiment.out_of_memory()))
    if others := experiment.not_asked_for():
        print(others)
    print(f"written to {folder.path}")


def _chosen(figure: Figure, topologies: str, methods: str, alpha: str, nodes: str) -> Figure:
    """The figure with what the flags say instead; empty: as it is."""
    from basegraph.experiments.figures import plain

    if topologies:
        figure = figure._replace(topologies=_each(parse_specs("--topologies", topologies)))
    if methods:
        figure = figure._replace(methods=_each(parse_algorithms("--methods", methods)))
    if alpha:
        figure = figure._replace(alphas=_each(number("--alpha", text) for text in alpha.split(",")))
    if nodes:
        figure = figure._replace(nodes=_each(whole_numbers("--nodes", nodes, low=2)))
    for method in figure.methods:
        if method.startswith("allreduce-"):
            raise InvalidArgument("--methods", method, "is in every figure: leave it out")
    return plain(figure)


@contextmanager
def _named(settings: str) -> Iterator[None]:
    """Name the settings where one of their fields is refused."""
    from basegraph.experiments.figures import PRESET_FIELDS

    try:
        yield
    except InvalidArgument as error:
        if error.argument not in PRESET_FIELDS:
            raise
        raise InvalidArgument("--settings", settings, f"means {error}") from None


def _each(values: Iterable[T]) -> tuple[T, ...]:
    """Every value once."""
    return tuple(dict.fromkeys(values))


def mnist(
    out: Out = RESULTS / "mnist",
    dataset: Annotated[
        str, typer.Option(metavar="NAME", help="mnist, or fashion-mnist as in the paper")
    ] = "mnist",
    data_dir: DataDir = "",
    seed: Annotated[str, typer.Option(metavar="S", help="seeds; the first chooses η")] = "0:2",
    alpha: Annotated[str, typer.Option(metavar="A,...", help="heterogeneities")] = "0.1,10",
    split_order: SplitOrder = "shuffled",
    epochs: Epochs = "200",
    device: Device = "auto",
    resume: Resume = False,
    force: Force = False,
) -> None:
    """LeNet on 25 nodes over every topology, α = 0.1 and 10, η chosen on validation (Sec. 6.2).

    The same as `basegraph reproduce learning mnist`.

    Example: basegraph reproduce mnist --data-dir data --out results/mnist
    """
    learning(
        "mnist",
        out=out,
        dataset=dataset,
        data_dir=data_dir,
        seed=seed,
        alpha=alpha,
        split_order=split_order,
        epochs=epochs,
        device=device,
        replicas=str(MOST_SMALL_RUNS),
        resume=resume,
        force=force,
    )


def _print_left_out(experiment: Experiment) -> None:
    for line in experiment.left_out():
        print(f"left out: {line}")


def _print_plan(experiment: Experiment, step_ms: float | None, json: bool) -> None:
    """What is left to be done, what is sent, and how long that takes."""
    rows = experiment.plan(step_ms)
    times = [row["minutes left"] for row in rows]
    minutes = None if None in times else sum(times)
    if json:
        as_json({"plan": rows, "minutes": minutes, "left_out": experiment.left_out()})
        return
    print_rows(rows, "runs: every learning rate with the first seed, the best with the others", "?")
    _print_left_out(experiment)
    sent = sum(row["left"] * row["GB per node, each"] * row["n"] for row in rows)
    total = (
        f"{experiment.count_left()} of {experiment.count()} runs left, {sent:.4g} GB sent in all"
    )
    if minutes is None:
        print(f"{total}; --step-ms says how long that takes")
        return
    if step_ms is not None:
        where = f"at {step_ms:g} ms a step of 25 nodes"
    elif experiment.measured_ms_per_step() is not None:
        where = "as the finished runs took"
    else:
        where = "one after another on an H200, evaluations not counted"
    print(f"{total}: {minutes:.1f} minutes, {where}")
