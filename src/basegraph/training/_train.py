"""Runs on one device: one, or several side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from torch import nn

from basegraph.algorithms.method import Method
from basegraph.data.catalog import recorded_name
from basegraph.data.dataset import OWN, Dataset
from basegraph.engines.device import pick_device
from basegraph.engines.own_method import require_sound
from basegraph.engines.select import single_process_engine
from basegraph.engines.signals import logged_signals
from basegraph.errors import InvalidArgument
from basegraph.models.flat import FlatModel
from basegraph.models.gradients import Loss
from basegraph.storage.files import CannotWrite
from basegraph.topologies.catalog import topology as build_topology
from basegraph.topologies.core._digest import digest
from basegraph.topologies.core.sequence import Topology
from basegraph.topologies.two_states.sequence import AnyTopology, TwoStateSequence
from basegraph.topologies.verify.own import require_rounds
from basegraph.training.config import RunConfig
from basegraph.training.datasets import load_dataset, require_enough
from basegraph.training.estimate import estimate
from basegraph.training.folder import RunFolder, open_run
from basegraph.training.loggers import Logger, Loggers
from basegraph.training.loop import Loop
from basegraph.training.memory import NotEnoughMemory, fit
from basegraph.training.metrics import Metrics
from basegraph.training.modules import build_model, model_form, require_vocabulary
from basegraph.training.problem import Own, Problem
from basegraph.training.run import Diverged, Run, begin_together, require_same_settings
from basegraph.training.threads import choose_threads, using_threads
from basegraph.training.watcher import Watcher


def train(
    config: RunConfig,
    out: Path | str,
    *,
    resume: bool = False,
    watcher: Watcher | None = None,
    topology: AnyTopology | None = None,
    algorithm: Method | None = None,
    dataset: Dataset | None = None,
    module: nn.Module | None = None,
    loss: Loss | None = None,
    loggers: Sequence[Logger] = (),
) -> list[Metrics]:
    """Train all nodes of a run in this process, or continue a run.

    What is passed besides the configuration is used in place of what that names, and the run
    records so: to resume it, pass the same again. A run that was stopped before its first
    checkpoint resumes from the start; one that has ended is left as it is.

    Args:
        config: Everything that determines the run.
        out: The folder of the run.
        resume: Continue the run in the folder.
        watcher: What to call at the start, after a step and after an evaluation.
        topology: Any topology for as many nodes, as `from_networkx` makes them, too.
        algorithm: A method with its options bound, as `bg.algorithm` makes it.
        dataset: Data of your own: images, or any arrays that the module takes.
        module: Any module that is a function of its parameters and samples alone.
        loss: `loss(outputs, targets)`, a mean over samples; cross-entropy if left out.
        loggers: What gets the metrics of each evaluation, too, and is closed at the end, as those
            of `basegraph.integrations`.

    Returns:
        The rows of metrics.jsonl, one per evaluation.

    Raises:
        InvalidArgument: If the folder, the configuration, the model or a method of one's own is
            refused.
        InvalidRound: If a round of the topology would not keep the average.
        Diverged: If a loss or a model becomes infinite or NaN.
        Interrupted: If a signal asks to stop; a checkpoint has been written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = train(RunConfig(nodes=4, epochs=2), f"{folder}/run")
        >>> [row["epoch"] for row in rows]
        [1, 2]

    """
    for name, value, *kinds in (
        ("topology", topology, Topology, TwoStateSequence),
        ("algorithm", algorithm, Method),
        ("dataset", dataset, Dataset),
        ("module", module, nn.Module),
    ):
        if value is not None and not isinstance(value, tuple(kinds)):
            kind = kinds[0].__name__
            raise InvalidArgument(name, value, f"must be a {kind}; RunConfig takes names")
    if topology is not None:
        require_rounds(topology)
    if algorithm is not None:
        require_sound(algorithm)
    if loss is not None and not callable(loss):
        raise InvalidArgument("loss", loss, "must be a function of outputs and targets")
    folder, log = Path(out), Loggers(loggers)
    watcher = watcher or Watcher()
    tell = watcher.evaluated

    def evaluated(row: Metrics) -> None:
        tell(row)
        log.evaluated(row)

    with closing(log), open_run(folder, resume=resume) as opened:
        watchers = {folder: replace(watcher, evaluated=evaluated)}
        own = Own(topology, algorithm, loss)
        (result,) = _train({opened: config}, watchers, dataset, module, own)
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
        return _train(folders, watchers or {}, dataset, module, Own())


def _train(
    folders: Mapping[RunFolder, RunConfig],
    watchers: Mapping[Path, Watcher],
    dataset: Dataset | None,
    module: nn.Module | None,
    own: Own,
) -> list[list[Metrics] | Diverged]:
    configs = [recorded(config, dataset, module, own) for config in folders.values()]
    dataset = dataset or load_dataset(configs[0])
    left: dict[RunFolder, RunConfig] = {}
    results: dict[RunFolder, list[Metrics] | Diverged] = {}
    for folder, config in zip(folders, configs, strict=True):
        if folder.resume and (rows := folder.results()):
            require_same_settings(config, folder.settings(), "the run that is resumed")
            folder.require_same_data(dataset)
            folder.clear_leftovers()
            watchers.get(folder.path, Watcher()).ended(rows)
            results[folder] = rows
        else:
            left[folder] = config
    if left:
        made = _train_side_by_side(left, watchers, dataset, module, own)
        results |= zip(left, made, strict=True)
    return [results[folder] for folder in folders]


def _train_side_by_side(
    folders: Mapping[RunFolder, RunConfig],
    watchers: Mapping[Path, Watcher],
    dataset: Dataset,
    module: nn.Module | None,
    own: Own,
) -> list[list[Metrics] | Diverged]:
    configs = list(folders.values())
    config = configs[0]
    device = pick_device(config.device)
    own.require_all(config)
    for each in configs:  # what is cheap to find out comes first
        require_enough(each, dataset)
    form = model_form(config, dataset) if module is None else FlatModel(module)
    room = fit(config, form, dataset, device, own.method)
    if room < len(configs):
        raise NotEnoughMemory(f"{len(configs)} runs side by side: only {room} fit on {device}")
    modules = [module or build_model(each, dataset) for each in configs]
    require_vocabulary(modules[0], dataset, config.model)
    model = FlatModel(modules[0])
    threads = choose_threads(config, model, dataset, device, config.nodes * len(configs))
    with using_threads(threads.steps):
        pairs = zip(configs, modules, strict=True)
        problems = [Problem(each, dataset, mine, own) for each, mine in pairs]
        engine = single_process_engine(dataset, problems)
        runs = [
            Run(problem, view, folder, watchers.get(folder.path, Watcher()), threads.evaluations)
            for problem, view, folder in zip(problems, engine.runs, folders, strict=True)
        ]
        begin_together(runs, dataset)
        for line in (estimate(engine.nodes), _no_communication(problems[0])):
            if line is not None:
                runs[0].watcher.noted(line)
        try:
            with logged_signals() as log:
                return Loop(engine, runs).run(log.received)
        except CannotWrite as error:
            raise CannotWrite(
                f"{error}; what was written before is kept: resume to continue"
            ) from error


def _no_communication(problem: Problem) -> str | None:
    """What to tell a user whose nodes never communicate."""
    every, steps = problem.config.local_steps, problem.total_steps
    if every <= steps:
        return None
    return f"nodes never communicate: local_steps is {every}, and the run has {steps} steps"


def recorded(
    config: RunConfig, dataset: Dataset | None, module: nn.Module | None, own: Own
) -> RunConfig:
    """The configuration with the names of what is used in place of what it names."""
    if dataset is not None:
        tokenizer = dataset.text.tokenizer if dataset.text else ""
        config = replace(config, dataset=recorded_name(dataset), tokenizer=tokenizer)
    if module is not None:
        config = replace(config, model=f"{OWN}{type(module).__name__}")
    if own.topology is not None:
        config = replace(config, topology=_recorded_topology(own.topology))
    if own.method is not None:
        config = replace(config, algorithm=own.method.spec or f"{OWN}{own.method.name}")
    return config


def _recorded_topology(t: AnyTopology) -> str:
    """The spec of these rounds in the catalogue, or a name marked as the user's own."""
    try:
        known = build_topology(t.spec, t.n)
    except InvalidArgument:
        return f"{OWN}{t.spec}"
    return t.spec if digest(known) == digest(t) else f"{OWN}{t.spec}"
