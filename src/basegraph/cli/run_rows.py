"""Runs as rows of a table: one per run, or one per setting with means over seeds."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, stdev
from typing import Any

from basegraph.plots.colors import topology_of
from basegraph.training.config import NEEDS, SETTINGS

ALWAYS = ("alpha", "lr")
"""Settings that have a column even where all runs agree."""
FREE = {name for name, setting in SETTINGS.items() if setting.free}
NAMED = {"topology", "algorithm", "seed"}
MEASURED = ("test_", "validation_")
NO_METRIC = ("run", "state", "epoch")


def varied(configs: list[dict[str, Any]]) -> list[str]:
    """The settings that a table needs columns for: α, lr, and those in which runs differ.

    The split has one, too, where it is not by α.

    >>> varied([{"alpha": 0.1, "lr": 0.1, "nodes": n, "seed": n} for n in (5, 25)])
    ['alpha', 'lr', 'nodes']
    >>> varied([{"split": "iid"}])
    ['alpha', 'lr', 'split']
    """
    names = sorted({name for config in configs for name in config} - FREE - NAMED - {*ALWAYS})
    differing = {n for n in names if len({repr(config.get(n)) for config in configs}) > 1}
    told = differing if all(map(split_by_alpha, configs)) else {*differing, "split"}
    return [*ALWAYS, *sorted(told)]


def split_by_alpha(config: Mapping[str, Any]) -> bool:
    """Whether α has a part in how a run's data is split."""
    other, value = NEEDS["alpha"]
    return bool(config.get(other, value) == value)


def run_row(run: dict[str, Any]) -> dict[str, Any]:
    """A run: its name, its settings (α None where data is not split by it), where it ended."""
    config = run["config"]
    settings = {name: config[name] for name in SETTINGS if name in config and name not in FREE}
    settings |= {"topology": topology_of(config), "state": run["state"]}
    if not split_by_alpha(config):
        settings["alpha"] = None
    return {"run": run["run"], **settings, **run["rows"][-1]}


def setting_of(row: Mapping[str, Any]) -> str:
    """What runs share that differ in nothing but their seed."""
    return repr([(name, row.get(name)) for name in SETTINGS if name not in {*FREE, "seed"}])


def mean_rows(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row per setting: how many seeds, and mean and standard deviation of what was measured.

    A deviation is called as its metric with `_std` behind, and None where there is one seed. Runs
    that were made again with the same seed count once, by their mean.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        row = run_row(run)
        groups.setdefault(setting_of(row), []).append(row)
    made = []
    for rows in groups.values():
        first = rows[0]
        settings = {n: first[n] for n in first if n in SETTINGS and n != "seed"}
        seeds: dict[Any, list[dict[str, Any]]] = {}
        for row in rows:
            metrics = {name: row[name] for name in row if name not in SETTINGS}
            seeds.setdefault(row.get("seed"), []).append(metrics)
        made.append(
            {
                "seeds": len(seeds),
                **settings,
                "epoch": min(row["epoch"] for row in rows),
                **_with_deviations([_means(repeats) for repeats in seeds.values()]),
            }
        )
    return made


def _means(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The means of the numbers that all rows have."""
    means = {}
    for name in rows[0]:
        values = [row[name] for row in rows if isinstance(row.get(name), int | float)]
        if name not in NO_METRIC and len(values) == len(rows):
            means[name] = fmean(values)
    return means


def _with_deviations(rows: list[dict[str, float]]) -> dict[str, Any]:
    """The means, and for scores their standard deviation behind them."""
    means: dict[str, Any] = {}
    for name, value in _means(rows).items():
        means[name] = value
        if name.startswith(MEASURED) and not name.endswith("_samples"):
            means[f"{name}_std"] = stdev(row[name] for row in rows) if len(rows) > 1 else None
    return means
