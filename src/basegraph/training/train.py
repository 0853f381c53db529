"""Runs on one device: one, or several side by side."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from torch import nn

from basegraph.data.catalog import load, recorded_name
from basegraph.data.dataset import OWN, Dataset
from basegraph.data.partition import require_samples
from basegraph.engines.device import pick_device
from basegraph.engines.select import single_process_engine
from basegraph.engines.signals import logged_signals
from basegraph.models.flat import FlatModel
from basegraph.models.networks import build
from basegraph.storage.files import CannotWrite
from basegraph.training.config import RunConfig
from basegraph.training.estimate import estimate
from basegraph.training.folder import RunFolder, open_run
from basegraph.training.loop import Loop
from basegraph.training.memory import NotEnoughMemory, fit
from basegraph.training.metrics import Metrics
from basegraph.training.problem import Problem
from basegraph.training.run import Diverged, Run, begin_together
from basegraph.training.threads import choose_threads, using_threads
from basegraph.training.watcher import Watcher


def train(
    config: RunConfig,
    out: Path | str,
    *,
    resume: bool = False,
    watcher: Watcher | None = None,
    dataset: Dataset | None = None,
    module: nn.Module | None = None,
) -> list[Metrics]:
    """Train all nodes of a run in this process, or continue a run.

    A run that was stopped before its first checkpoint resumes from the start.

    Args:
        config: Everything that determines the run.
        out: The folder of the run.
        resume: Continue the run in the folder.
        watcher: What to call at the start, after a step and after an evaluation.
        dataset: A dataset in place of the configuration's. The run records its own name.
        module: A model in place of the configuration's: any module that is a function of its
            parameters and samples alone. The run records the name of its class. To resume a run,
            pass the same dataset and module again.

    Returns:
        The rows of metrics.jsonl, one per evaluation.

    Raises:
        InvalidArgument: If the folder, the configuration or the model is refused.
        Diverged: If a loss or a model becomes infinite or NaN.
        Interrupted: If a signal asks to stop; a checkpoint has been written.

    """
    folder = Path(out)
    with open_run(folder, resume=resume) as opened:
        watchers = {folder: watcher} if watcher else {}
        (result,) = _train({opened: config}, watchers, dataset, module)
    if isinstance(result, Diverged):
        raise result
    return result


def train_together(
    runs: Mapping[Path, RunConfig],
    *,
    resume: bool = False,
    watchers: Mapping[Path, Watcher] | None = None,
    dataset: Dataset | None = None,
    module: nn.Module | None = None,
) -> list[list[Metrics] | Diverged]:
    """Train several runs side by side: each gives what it would give by itself.

    Args:
        runs: Folders and configurations, which may differ in seed, learning rate, α and topology.
        resume: Continue those whose folder holds a run; they must be at the same step.
        watchers: What to call, by folder.
        dataset: A dataset in place of the configurations'.
        module: A model in place of the configurations'.

    Returns:
        The rows of metrics of each run, or how it diverged.

    """
    with ExitStack() as stack:
        folders = {}
        for path, config in runs.items():
            continues = resume and (path / "config.toml").is_file()
            folders[stack.enter_context(open_run(path, resume=continues))] = config
        return _train(folders, watchers or {}, dataset, module)


def _train(
    folders: Mapping[RunFolder, RunConfig],
    watchers: Mapping[Path, Watcher],
    dataset: Dataset | None,
    module: nn.Module | None,
) -> list[list[Metrics] | Diverged]:
    configs = [_as_given(config, dataset, module) for config in folders.values()]
    config = configs[0]
    if dataset is None:
        dataset = load(config.dataset, Path(config.data_dir) if config.data_dir else None)
    device = pick_device(config.device)
    modules = []
    for each in configs:  # what is cheap to find out comes first
        require_samples(each.nodes, len(dataset.train), each.validation)
        modules.append(module or build(each.model, dataset.shape, dataset.classes, each.seed))
    model = FlatModel(modules[0])
    room = fit(config, model, dataset, device)
    if room < len(configs):
        raise NotEnoughMemory(f"{len(configs)} runs beside each other: {room} fit on {device}")
    threads = choose_threads(config, model, dataset, device, config.nodes * len(configs))
    with using_threads(threads.steps):
        pairs = zip(configs, modules, strict=True)
        problems = [Problem(each, dataset, own_module) for each, own_module in pairs]
        engine = single_process_engine(dataset, problems)
        runs = [
            Run(problem, view, folder, watchers.get(folder.path, Watcher()), threads.evaluations)
            for problem, view, folder in zip(problems, engine.runs, folders, strict=True)
        ]
        begin_together(runs, dataset)
        long = estimate(engine.nodes)
        if long is not None:
            runs[0].watcher.noted(long)
        try:
            with logged_signals() as log:
                return Loop(engine, runs).run(log.received)
        except CannotWrite as error:
            raise CannotWrite(
                f"{error}; what was written before is kept: resume to continue"
            ) from error


def _as_given(config: RunConfig, dataset: Dataset | None, module: nn.Module | None) -> RunConfig:
    """The configuration with the names of the dataset and the module that are used instead."""
    if dataset is not None:
        config = replace(config, dataset=recorded_name(dataset))
    if module is not None:
        config = replace(config, model=f"{OWN}{type(module).__name__}")
    return config
