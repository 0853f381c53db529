"""Which topology of degree one trains best: all of them on the same data, seed by seed.

Beside those that mix one vector per node stands `ceca`, which keeps two and sends one: it is
trained by the form of the same method for two vectors, `dsgdm-ceca`.

A seed decides the data split, the start and the order of samples, for every topology alike; so
topologies are compared by the differences within a seed, whose spread is smaller than that of the
accuracies themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from statistics import mean
from typing import Any

from basegraph.errors import BasegraphError, InvalidArgument
from basegraph.experiments.campaign import distinct_rates
from basegraph.experiments.grid import expand, topology_of_list
from basegraph.experiments.reporting import markdown
from basegraph.experiments.statistics import rounded, spread, standard_error
from basegraph.experiments.store import ResultFolder
from basegraph.experiments.sweep import SweepFolder, SweepWatcher, run_sweep
from basegraph.plots.learning import draw_learning
from basegraph.topologies.analysis.diagnostics import diagnose
from basegraph.topologies.catalog import TWO_STATE_NAMES, topology
from basegraph.topologies.core.sequence import Sequence
from basegraph.topologies.two_states.sequence import AnyTopology, TwoStateSequence
from basegraph.training.config import RunConfig
from basegraph.training.metrics import Metrics

REFERENCE = "base:k=1"
TWO_STATE_METHOD = "dsgdm-ceca"
"""What trains with two vectors per node; the others take the default, dsgdm."""
TOPOLOGIES = (
    REFERENCE,
    "base:k=1,home=true",
    "one-peer-exponential",
    "euclid",
    "euclid:home=true",
    "short:k=1",
    "short:k=1,home=true",
    "steady",
    "steady:home=true",
    "ceca",
)
"""As built, and so that values stay at home; the weights of one-peer-exponential are 1/2 anyway."""


def outputs(rates: list[float]) -> list[str]:
    """The files that are written."""
    return ["runs.csv", "pairs.csv", "pairs.md", *(f"curves-{rate:g}.png" for rate in rates)]


def distinct_topologies(names: Iterable[str], n: int) -> dict[str, list[str]]:
    """The topologies to be trained, each with all its names for this n."""
    built = [_sequence(name, n) for name in names]
    rounds = {t.spec: list(t) for t in built}  # however a topology is written
    aliases: dict[str, list[str]] = {}
    for name, period in rounds.items():
        first = next((other for other in aliases if rounds[other] == period), name)
        aliases.setdefault(first, []).append(name)
    return aliases


def reproduce(
    folder: ResultFolder,
    settings: dict[str, Any],
    seeds: list[int],
    rates: list[float],
    topologies: Iterable[str] = TOPOLOGIES,
    *,
    resume: bool = False,
    progress: Callable[[list[str]], SweepWatcher] = lambda names: SweepWatcher(),
) -> tuple[list[dict[str, Any]], list[str]]:
    """Make all runs (or what is left of them) and write the files.

    Returns:
        The table, and the names of runs that ran out of memory.

    """
    names = distinct_topologies(topologies, settings["nodes"])
    what = RunConfig(**settings).computes()
    rates = distinct_rates(rates)
    runs = expand(settings, grids(names, rates, seeds), "pairs")
    text = json.dumps(what, indent=2) + "\n"
    sweep = SweepFolder(folder / "runs", text, resume=resume, out=folder.path)
    run_sweep(runs, sweep, progress=progress(list(sweep.left(runs))))
    folder.table("runs.csv", [_row(name, run, sweep) for name, run in runs.items()])
    table = [row for rate in rates for row in summary(runs, rate, sweep, names)]
    if not table:
        raise BasegraphError(f"every run failed: see {sweep.failures}")
    folder.table("pairs.csv", table)
    folder.text("pairs.md", markdown(table))
    for rate in rates:
        drawn = {n: run for n, run in runs.items() if run.lr == rate and sweep.rows(n)}
        curves = [{"config": vars(run), "rows": sweep.rows(n)} for n, run in drawn.items()]
        draw_learning(curves, [folder / f"curves-{rate:g}.png"])
    return table, [name for name in sweep.out_of_memory() if name in runs]


def grids(names: Iterable[str], rates: list[float], seeds: list[int]) -> list[dict[str, Any]]:
    """The runs: one grid of topologies with one vector per node, one of those with two."""
    both: dict[bool, list[str]] = {False: [], True: []}
    for name in names:
        both[name in TWO_STATE_NAMES].append(name)
    made: list[dict[str, Any]] = []
    for two, specs in both.items():
        if specs:
            method = {"algorithm": [TWO_STATE_METHOD]} if two else {}
            made.append({"topology": specs, **method, "lr": rates, "seed": seeds})
    return made


def summary(
    runs: dict[str, RunConfig], rate: float, sweep: SweepFolder, names: dict[str, list[str]]
) -> list[dict[str, Any]]:
    """Where the topologies ended for one learning rate, the best first."""
    ended: dict[str, dict[int, Metrics]] = {name: {} for name in names}
    failures = sweep.failed() | sweep.out_of_memory()
    for run_name, run in runs.items():
        if run.lr == rate and run_name not in failures:
            ended[run.topology][run.seed] = sweep.rows(run_name)[-1]
    nodes = next(iter(runs.values())).nodes
    table = []
    for name, rows in ended.items():
        if not rows:
            continue
        shares = {seed: 100 * row["test_accuracy"] for seed, row in rows.items()}
        beside = next((ended[first] for first in names if REFERENCE in names[first]), {})
        reference = {seed: 100 * row["test_accuracy"] for seed, row in beside.items()}
        gains = [shares[seed] - reference[seed] for seed in shares if seed in reference]
        table.append(
            {
                "lr": rate,
                "topology": " = ".join(names[name]),
                **properties(name, nodes),
                "seeds": len(rows),
                "test %": round(mean(shares.values()), 2),
                "± %": rounded(spread(list(shares.values())), 2),
                f"above {REFERENCE}": round(mean(gains), 2) if gains else "–",
                "standard error": rounded(standard_error(gains), 2),
                "averaged model %": round(
                    mean(100 * row["test_accuracy_averaged"] for row in rows.values()), 2
                ),
            }
        )
    return sorted(table, key=lambda row: -row["test %"])


def properties(name: str, n: int) -> dict[str, Any]:
    """What is known of a topology before training."""
    t = _sequence(name, n)
    if isinstance(t, TwoStateSequence):  # what is diagnosed of mixing matrices is not defined
        columns = diagnose(topology(REFERENCE, 2)).row()
        return {"rounds": t.period, "vectors per node": 2, **dict.fromkeys(columns, "–")}
    known = diagnose(t).row()
    shown = {k: round(v, 4) if isinstance(v, float) else v for k, v in known.items()}
    return {"rounds": t.period, "vectors per node": 1, **shown}


def _sequence(name: str, n: int) -> Sequence | TwoStateSequence:
    t: AnyTopology = topology_of_list(name, n)
    if not isinstance(t, Sequence | TwoStateSequence) or t.max_degree > 1:
        raise InvalidArgument("topologies", name, "must have a period and one neighbor a round")
    return t


def _row(name: str, run: RunConfig, sweep: SweepFolder) -> dict[str, Any]:
    columns = ("epoch", "train_loss", "test_accuracy", "test_accuracy_averaged",
               "test_accuracy_worst", "consensus_distance", "bytes_per_node")  # fmt: skip
    rows = sweep.rows(name)
    last: Mapping[str, Any] = rows[-1] if rows else {}
    return {
        "topology": run.topology,
        "lr": run.lr,
        "seed": run.seed,
        "failure": (sweep.failed() | sweep.out_of_memory()).get(name, ""),
        **{column: last.get(column, "") for column in columns},
    }
