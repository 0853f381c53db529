"""Runs on one device: one, or several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from torch import nn

from basegraph.data.catalog import load
from basegraph.data.dataset import Dataset
from basegraph.models.networks import build
from basegraph.training.config import RunConfig
from basegraph.training.device import pick_device
from basegraph.training.engine import StackedEngine
from basegraph.training.folder import RunFolder, open_run
from basegraph.training.loop import Diverged, Loop, Rows, Run, Watcher, told_to_stop
from basegraph.training.memory import NotEnoughMemory, fit
from basegraph.training.replica import Replica


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

    `dataset` and `module` may be given instead of the configuration's names: any module will do
    that is a function of its parameters and samples alone. A run that was stopped before its first
    checkpoint resumes from the start.
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
    config = jobs[0].config
    if dataset is None:
        dataset = load(config.dataset, Path(config.data_dir) if config.data_dir else None)
    replicas = []
    for job in jobs:
        mine = module or build(job.config.model, dataset.shape, dataset.classes, job.config.seed)
        replicas.append(Replica(job.config, dataset, mine))
    device = pick_device(config.device)
    room = fit(replicas[0], dataset, device)
    if room < len(replicas):
        raise NotEnoughMemory(f"{len(replicas)} runs beside each other: {room} fit on {device}")
    engine = StackedEngine(dataset, replicas)
    runs = [
        Run(folder, engine, job.watcher, replica)
        for replica, (job, folder) in enumerate(zip(jobs, folders, strict=True))
    ]
    for run in runs:
        run.begin(dataset)
    with told_to_stop() as told:
        return Loop(engine, runs).run(told)
