"""Runs on one device: one, or several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import nn

from basegraph.data.catalog import load, recorded_name
from basegraph.data.dataset import OWN, Dataset
from basegraph.data.partition import require_samples
from basegraph.engines.device import pick_device
from basegraph.engines.signals import told_to_stop
from basegraph.engines.stacked.engine import StackedEngine
from basegraph.models.flat import FlatModel
from basegraph.models.networks import build
from basegraph.storage.files import CannotWrite
from basegraph.training.config import RunConfig
from basegraph.training.estimate import estimate
from basegraph.training.folder import RunFolder, open_run
from basegraph.training.loop import Diverged, Loop, Rows, Run, Watcher
from basegraph.training.memory import NotEnoughMemory, fit
from basegraph.training.problem import Problem
from basegraph.training.threads import choose_threads, using_threads


@dataclass(frozen=True)
class Job:
    """A run to be made, or to be continued if `resume`."""

    config: RunConfig
    out: Path
    resume: bool = False
    watcher: Watcher = field(default_factory=Watcher)


def train(
    config: RunConfig,
    out: Path,
    *,
    resume: bool = False,
    watcher: Watcher | None = None,
    dataset: Dataset | None = None,
    module: nn.Module | None = None,
) -> Rows:
    """Run or resume a run in its folder; returns the rows of metrics.jsonl.

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

    """
    job = Job(config, Path(out), resume, watcher or Watcher())
    (found,) = train_together([job], dataset=dataset, module=module)
    if isinstance(found, Diverged):
        raise found
    return found


def train_together(
    jobs: Sequence[Job], *, dataset: Dataset | None = None, module: nn.Module | None = None
) -> list[Rows | Diverged]:
    """Make runs side by side: what each of them would have given alone, or how it diverged.

    The jobs may differ in seed, learning rate, α and topology, and must stand at the same step.
    """
    with ExitStack() as held:
        folders = [held.enter_context(open_run(job.out, resume=job.resume)) for job in jobs]
        return _train(jobs, folders, dataset, module)


def _train(
    jobs: Sequence[Job],
    folders: Sequence[RunFolder],
    dataset: Dataset | None,
    module: nn.Module | None,
) -> list[Rows | Diverged]:
    jobs = [replace(job, config=_as_given(job.config, dataset, module)) for job in jobs]
    config = jobs[0].config
    if dataset is None:
        dataset = load(config.dataset, Path(config.data_dir) if config.data_dir else None)
    device = pick_device(config.device)
    modules = []
    for job in jobs:  # what is cheap to find out comes first
        require_samples(job.config.nodes, len(dataset.train), job.config.validation)
        shape, classes, seed = dataset.shape, dataset.classes, job.config.seed
        modules.append(module or build(job.config.model, shape, classes, seed))
    model = FlatModel(modules[0])
    room = fit(config, model, dataset, device)
    if room < len(jobs):
        raise NotEnoughMemory(f"{len(jobs)} runs beside each other: {room} fit on {device}")
    threads = choose_threads(config, model, dataset, device, config.nodes * len(jobs))
    with using_threads(threads.steps):
        replicas = [
            Problem(job.config, dataset, mine) for job, mine in zip(jobs, modules, strict=True)
        ]
        engine = StackedEngine(dataset, replicas)
        runs = [
            Run(folder, engine, job.watcher, replica, threads.evaluations)
            for replica, (job, folder) in enumerate(zip(jobs, folders, strict=True))
        ]
        for run in runs:
            run.begin(dataset)
        long = estimate(engine)
        if long is not None:
            runs[0].watcher.noted(long)
        try:
            with told_to_stop() as asked:
                return Loop(engine, runs).run(asked.told)
        except CannotWrite as error:
            kept = "what was written before is kept, --resume continues"
            raise CannotWrite(f"{error}; {kept}") from error


def _as_given(config: RunConfig, dataset: Dataset | None, module: nn.Module | None) -> RunConfig:
    """The configuration with the names of the dataset and the module that are used instead."""
    if dataset is not None:
        config = replace(config, dataset=recorded_name(dataset))
    if module is not None:
        config = replace(config, model=f"{OWN}{type(module).__name__}")
    return config
