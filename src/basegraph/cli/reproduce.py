"""`basegraph reproduce`: the paper's figures and tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from basegraph.cli.arguments import (
    Force,
    number,
    refuse_torchrun,
    whole_number,
    whole_numbers,
)
from basegraph.cli.output import as_json, table
from basegraph.cli.sweep import SweepDisplay, print_out_of_memory
from basegraph.errors import InvalidArgument
from basegraph.experiments import VGG_11_PARAMETERS
from basegraph.experiments import consensus as consensus_experiment
from basegraph.experiments import illustrations as illustrations_experiment
from basegraph.experiments import lengths as lengths_experiment
from basegraph.experiments import table as table_experiment
from basegraph.experiments.store import HOLDS_RUNS, ResultFolder
from basegraph.storage.files import AlreadyExists
from basegraph.storage.lock import locked
from basegraph.topologies.analysis.diagnostics import EXACT_NODES, MEANINGS, NO_VERDICT
from basegraph.topologies.catalog import parse_specs

app = typer.Typer(help="Regenerate the paper's figures and tables.", rich_markup_mode=None)

Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="where the files go")]
SplitOrder = Annotated[str, typer.Option(metavar="NAME", help="shuffled or by-class")]
DataDir = Annotated[str, typer.Option(metavar="FOLDER", help="the folder of datasets")]
Epochs = Annotated[str, typer.Option(metavar="E", help="passes over the data")]
Device = Annotated[str, typer.Option(metavar="NAME", help="cpu, cuda or auto")]
Resume = Annotated[bool, typer.Option("--resume", help="run what is missing in the folder")]
RESULTS = Path("results")
ALONE = "start it without torchrun"


@app.command(short_help="The consensus figures.")
def consensus(
    out: Out = RESULTS / "consensus",
    seed: Annotated[str, typer.Option(metavar="S", help="of the Gaussian starts")] = "0:9",
    force: Force = False,
) -> None:
    """The consensus error for n = 21..25, n = 5000 and powers of two (Sec. 6.1, App. F).

    Example: basegraph reproduce consensus --out results/consensus
    """
    seeds = whole_numbers("--seed", seed, low=0)
    folder = ResultFolder(out, consensus_experiment.outputs(), force=force)
    for line in consensus_experiment.reproduce(folder, seeds):
        print(f"checked: {line}")
    _finish(folder, f"Gaussian starts from seeds {seed}")


@app.command(short_help="Rounds of simple-base and base.")
def lengths(out: Out = RESULTS / "lengths", force: Force = False) -> None:
    """Rounds of simple-base and base for n = 2..200, nine panels k = 1..9 (App. F.1).

    Example: basegraph reproduce lengths --out results/lengths
    """
    folder = ResultFolder(out, lengths_experiment.OUTPUTS, force=force)
    lengths_experiment.reproduce(folder)
    _finish(folder, "none: constructions only")


@app.command(short_help="The drawings of rounds.")
def illustrations(out: Out = RESULTS / "illustrations", force: Force = False) -> None:
    """The drawings of rounds for n = 3..12, colored by line of the pseudo-code (App. A-C).

    Example: basegraph reproduce illustrations --out results/illustrations
    """
    folder = ResultFolder(out, illustrations_experiment.OUTPUTS, force=force)
    illustrations_experiment.reproduce(folder)
    _finish(folder, "none: constructions only")


@app.command(short_help="Which topology of degree one trains best.")
def pairs(
    out: Out = RESULTS / "pairs",
    dataset: Annotated[str, typer.Option(metavar="NAME", help="what to train on")] = "digits",
    data_dir: DataDir = "",
    model: Annotated[str, typer.Option(metavar="NAME", help="mlp, lenet, vgg11, ...")] = "mlp",
    nodes: Annotated[str, typer.Option("--nodes", "-n", metavar="N", help="nodes")] = "25",
    seed: Annotated[str, typer.Option(metavar="S", help="seeds, each with its split")] = "0:9",
    lr: Annotated[str, typer.Option(metavar="X,...", help="learning rates")] = "0.1",
    topologies: Annotated[
        str,
        typer.Option(
            metavar="NAME,...", help="of degree one; empty: all, as built and with home=true"
        ),
    ] = "",
    alpha: Annotated[str, typer.Option(metavar="A", help="heterogeneity")] = "0.1",
    split_order: SplitOrder = "shuffled",
    epochs: Epochs = "50",
    augment: Annotated[str, typer.Option(metavar="A", help="crop, flip, erase, auto")] = "auto",
    precision: Annotated[str, typer.Option(metavar="P", help="tf32, float32 or bf16")] = "tf32",
    device: Device = "auto",
    resume: Resume = False,
    force: Force = False,
) -> None:
    """Which topology of degree one trains best, as built and with home=true, seed by seed.

    Example: basegraph reproduce pairs --dataset mnist --model lenet --data-dir data
    """
    refuse_torchrun("reproduce", "pairs", ALONE)
    from basegraph.experiments import pairs as pairs_experiment
    from basegraph.experiments.reporting import origins

    seeds = whole_numbers("--seed", seed, low=0)
    rates = [number("--lr", text) for text in lr.split(",")]
    passes = whole_number("--epochs", epochs, low=1)
    settings = {
        "dataset": dataset,
        "data_dir": data_dir,
        "split_order": split_order,
        "model": model,
        "nodes": whole_number("--nodes", nodes, low=2),
        "alpha": number("--alpha", alpha),
        "epochs": passes,
        "evaluate_every": max(1, passes // 10),
        "augment": augment,
        "precision": precision,
        "checkpoint_every": 50,
        "device": device,
    }
    chosen = parse_specs("--topologies", topologies) if topologies else pairs_experiment.TOPOLOGIES
    with ExitStack() as stack:
        files = pairs_experiment.outputs(rates)
        folder = stack.enter_context(folder_of_runs(out, files, force=force or resume))
        progress = stack.enter_context(displays())
        summary, cramped = pairs_experiment.reproduce(
            folder, settings, seeds, rates, chosen, resume=resume, progress=progress
        )
        data = f"{dataset}, α {alpha}, seeds {seed}, split {split_order}"
        folder.provenance(data, runs=origins(folder))
    print_rows(summary, f"{dataset}, {model}: mean test accuracy of the nodes' own models")
    print_out_of_memory(len(cramped))
    print(f"written to {folder.path}")


@app.command(name="table", short_help="Table 1: theory, and what is measured.")
def comparison_table(
    nodes: Annotated[
        str, typer.Option("--nodes", "-n", metavar="N", help="number of nodes")
    ] = "25",
    parameters: Annotated[
        str, typer.Option(metavar="P", help="numbers in the model (4 bytes each)")
    ] = str(VGG_11_PARAMETERS),
    epsilon: Annotated[str, typer.Option(metavar="X", help="accuracy to reach")] = "0.01",
    sigma: Annotated[str, typer.Option(metavar="X", help="gradient noise")] = "1",
    zeta: Annotated[str, typer.Option(metavar="X", help="heterogeneity")] = "1",
    out: Out = RESULTS / "table",
    json: Annotated[bool, typer.Option("--json", help="print both tables as JSON")] = False,
    force: Force = False,
) -> None:
    """Compare topologies, measured beside theory (Table 1), and DSGD's rates on them (App. E).

    Example: basegraph reproduce table --nodes 25 --epsilon 0.01 --sigma 1 --zeta 1
    """
    n = whole_number("--nodes", nodes, low=2)
    size = whole_number("--parameters", parameters, high=10**15)
    constants = {
        name: number(f"--{name}", text)
        for name, text in (("epsilon", epsilon), ("sigma", sigma), ("zeta", zeta))
    }
    rates = table_experiment.convergence(n, **constants)
    folder = ResultFolder(out, ["comparison.csv", "convergence.csv"], force=force)
    compared = table_experiment.comparison(n, size)
    folder.table("comparison.csv", compared)
    folder.table("convergence.csv", rates)
    folder.provenance(f"none: n={n}, {size} parameters, {constants}")
    if json:
        as_json({"comparison": compared, "convergence": rates})
        return
    print_rows(compared, f"topologies on {n} nodes; bytes of the busiest node, {size} parameters")
    print(f"where the average is never exact, consensus means: error × {table_experiment.SHRINK:g}")
    for name, meaning in MEANINGS.items():
        print(f"{name}: {meaning}.")
    print(NO_VERDICT)
    if n > EXACT_NODES:
        print("D and noise are Monte-Carlo estimates here.")
    print()
    title = f"rounds DSGD needs, in units of L·F0: n={n}, {_said(constants)}"
    print_rows(rates, title, missing="–")
    print(table_experiment.CAUTION)
    print(f"\nwritten to {folder.path}")


@contextmanager
def _nothing_left(out: Path) -> Iterator[None]:
    """Remove what was made in here of a folder of runs, if none has begun: it was refused."""
    made = [path for path in (out / "runs", out, *out.parents) if not path.exists()]
    unused = True
    try:
        yield
        unused = False
    finally:
        if made and unused and not any(out.glob("runs/*/*")):
            shutil.rmtree(out if out in made else made[0], ignore_errors=True)
            for path in made:
                with suppress(OSError):  # one that is gone, or that others use, too
                    path.rmdir()


@contextmanager
def folder_of_runs(
    out: Path, names: list[str], *, force: bool, writes: bool = True
) -> Iterator[ResultFolder]:
    """The folder of an experiment of many runs, which no other process writes inside the block.

    One that was begun is to be resumed, and of one that is refused nothing is left.

    Args:
        out: The folder.
        names: Files that will be written beside the runs.
        force: Whether these may exist.
        writes: Whether anything is written; what only reads needs no lock.

    """
    if not writes:
        yield ResultFolder(out, names, force=True, writes=False)
        return
    with _nothing_left(out):
        folder = _begun_or_free(out, names, force=force)
        with locked("--out", out):
            yield folder


def _begun_or_free(out: Path, names: list[str], *, force: bool) -> ResultFolder:
    begun = any(out.glob("runs/*/config.toml"))
    try:  # whether runs are resumed is asked when they are found to be of the same settings
        return ResultFolder(out, names, force=force or begun)
    except AlreadyExists:
        if (out / "runs").is_dir():
            raise InvalidArgument("out", str(out), HOLDS_RUNS) from None
        raise


@contextmanager
def displays(quiet: bool = False) -> Iterator[Callable[[list[str]], Any]]:
    """One display after another, for the sweeps that an experiment makes."""
    with ExitStack() as stack:
        yield lambda names: stack.enter_context(SweepDisplay(names, quiet)).progress()


def print_rows(rows: list[dict[str, Any]], title: str, missing: str = "never") -> None:
    """A table of rows that all have the keys of the first; what is None is said in words."""
    hidden = {"mean bytes per round"}
    columns = [column for column in rows[0] if column not in hidden]
    table(columns, [[_short(row[c], missing) for c in columns] for row in rows], title=title)


def _short(value: object, missing: str) -> str:
    if value is None:
        return missing
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _said(constants: dict[str, float]) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in constants.items())


def _finish(folder: ResultFolder, data: str) -> None:
    folder.provenance(data)
    print(f"written to {folder.path}")
