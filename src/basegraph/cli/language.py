"""`basegraph reproduce language`: language models, and every way to communicate."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from basegraph.cli.arguments import (
    Force,
    items,
    number,
    refuse_torchrun,
    whole_number,
    whole_numbers,
)
from basegraph.cli.output import as_json
from basegraph.cli.reproduce import (
    ALONE,
    RESULTS,
    DataDir,
    Device,
    Epochs,
    Out,
    Resume,
    displays,
    folder_of_runs,
    print_rows,
)
from basegraph.cli.sweep import print_out_of_memory
from basegraph.errors import InvalidArgument

if TYPE_CHECKING:
    from basegraph.experiments.language import Experiment

EVALUATIONS = 8
EVALUATED_TOKENS = 2**16
"""Of each set, the same at all evaluations: every node's model reads them."""


def language(
    out: Out = RESULTS / "language",
    dataset: Annotated[
        str, typer.Option(metavar="NAME", help="text or text:PATH; every file is a domain")
    ] = "text:kernel",
    data_dir: DataDir = "",
    model: Annotated[
        str, typer.Option(metavar="SPEC", help="a model for tokens")
    ] = "gpt-10m:context=256",
    nodes: Annotated[str, typer.Option("--nodes", "-n", metavar="N", help="nodes")] = "25",
    methods: Annotated[
        str, typer.Option(metavar="NAME,...", help="all-reduce, base:k=1, ...; empty: all")
    ] = "",
    splits: Annotated[str, typer.Option(metavar="NAME,...", help="of the domains")] = "domains,iid",
    lr: Annotated[
        str, typer.Option(metavar="X,...", help="learning rates, the same for all methods")
    ] = "0.0005,0.001,0.002,0.004,0.008,0.016",
    seed: Annotated[str, typer.Option(metavar="S", help="seeds; the first chooses η")] = "0:2",
    batch: Annotated[str, typer.Option(metavar="B", help="windows per node and step")] = "4",
    epochs: Epochs = "16",
    epoch_steps: Annotated[str, typer.Option(metavar="T", help="steps of an epoch")] = "64",
    precision: Annotated[str, typer.Option(metavar="P", help="tf32, float32 or bf16")] = "bf16",
    device: Device = "auto",
    replicas: Annotated[str, typer.Option(metavar="R", help="runs side by side, at most")] = "1",
    minutes: Annotated[
        str,
        typer.Option(
            metavar="M", help="start no run after so many minutes; 0: only draw what is there"
        ),
    ] = "",
    plan: Annotated[bool, typer.Option("--plan", help="dry run: list the remaining runs")] = False,
    speed: Annotated[
        str, typer.Option(metavar="X", help="tokens per second, for the time in --plan")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    resume: Resume = False,
    force: Force = False,
) -> None:
    """Transformers on text, a domain for each node or iid: all-reduce, gossip, DiLoCo.

    Example: basegraph reproduce language --dataset text:kernel --data-dir data --minutes 9 --resume
    """
    refuse_torchrun("reproduce", "language", ALONE)
    from basegraph.experiments import language as recipe
    from basegraph.experiments.language_report import outputs, report
    from basegraph.experiments.reporting import origins
    from basegraph.models.networks import context_of

    chosen_splits = items(splits)
    for split in chosen_splits:
        if split not in recipe.SPLITS:
            raise InvalidArgument("--splits", split, f"must be some of {', '.join(recipe.SPLITS)}")
    passes = whole_number("--epochs", epochs, low=1)
    context = context_of(model)
    if context is None:
        raise InvalidArgument("--model", model, "must be a model for tokens, such as gpt-10m")
    if dataset.partition(":")[0] != "text":
        raise InvalidArgument("--dataset", dataset, "must be text or text:PATH")
    settings = {
        "dataset": dataset,
        "data_dir": data_dir,
        "model": model,
        "nodes": whole_number("--nodes", nodes, low=2),
        "batch": whole_number("--batch", batch, low=1),
        "epochs": passes,
        "epoch_steps": whole_number("--epoch-steps", epoch_steps, low=1),
        "precision": precision,
        "device": device,
        "weight_decay": 0.1,
        "clip": 1.0,
        "validation": 0.02,
        "evaluate_every": max(1, passes // EVALUATIONS),
        "evaluate_samples": max(1, EVALUATED_TOKENS // context),
        "evaluate_nodes": 0,
        "evaluate_last": max(1, EVALUATED_TOKENS // context),
        "checkpoint_every": passes,
    }
    limit = number("--minutes", minutes, low=0) if minutes else None
    side_by_side = whole_number("--replicas", replicas, low=1)
    rates = [number("--lr", text) for text in lr.split(",")]
    seeds = whole_numbers("--seed", seed, low=0)
    arms = items(methods) if methods else list(recipe.ARMS)
    tokens_per_second = number("--speed", speed, low=1e-6) if speed else None
    if speed and not plan:
        raise InvalidArgument("--speed", speed, "requires --plan")
    with ExitStack() as stack:
        files = outputs(chosen_splits)
        opened = folder_of_runs(out, files, force=force or resume, writes=not plan)
        folder = stack.enter_context(opened)
        progress = stack.enter_context(displays(quiet=json))
        experiment = recipe.Experiment(
            folder, settings, arms, chosen_splits, rates, seeds, resume=resume or plan
        )
        if plan:
            _print_plan(experiment, tokens_per_second, json)
            return
        experiment.make(side_by_side=side_by_side, minutes=limit, progress=progress)
        table, missing = report(experiment)
        folder.provenance(f"{dataset}, seeds {seed}, splits {splits}", runs=origins(folder))
    experiment.require_any()
    if json:
        as_json(
            {
                "table": table,
                "missing": missing,
                "out_of_memory": [key.name for key in experiment.out_of_memory()],
                "not_asked_for": experiment.names_not_asked_for(),
            }
        )
        return
    if table:
        print_rows(table, f"{dataset}, {model}, {nodes} nodes: test text, mean over nodes", "–")
    if missing:
        left, following = experiment.count_left(), folder / "missing.txt"
        print(f"{left} of {experiment.count()} runs are missing; those that come next: {following}")
    print_out_of_memory(len(experiment.out_of_memory()))
    if others := experiment.not_asked_for():
        print(others)
    print(f"written to {folder.path}")


def _print_plan(experiment: Experiment, speed: float | None, json: bool) -> None:
    """What is left to be done, and how long that takes."""
    rows = experiment.plan()
    left = experiment.count_left() * experiment.tokens_of_run()
    measured = speed or experiment.measured_speed()
    hours = None if measured is None else left / measured / 3600
    if json:
        as_json({"plan": rows, "tokens_per_second": measured, "hours": hours})
        return
    print_rows(rows, "runs: every learning rate with the first seed, the best with the others")
    total = f"{experiment.count_left()} of {experiment.count()} runs left"
    if hours is None:
        print(f"{total}, {left / 1e6:.4g} M tokens; --speed says how long that takes")
        return
    where = "" if speed else ", as measured here"
    print(
        f"{total}, {left / 1e6:.4g} M tokens: {hours:.2g} hours at {measured:.3g} tokens/s{where}"
    )
