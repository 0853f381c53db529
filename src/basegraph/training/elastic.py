"""A run with one node per process: node 0 writes its folder, and it survives the loss of nodes.

When a node is lost, each survivor saves its model in the folder `nodes` of the run. Whoever resumes
the run, with any number of nodes, begins from the survivors' average: the topology is built and the
data are split for the new number, and the run goes on at the same epoch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from basegraph.data.dataset import Dataset
from basegraph.engines import checkpoint
from basegraph.engines.checkpoint import Checkpoint, CheckpointError
from basegraph.engines.device import pick_device
from basegraph.engines.distributed.collectives import broadcast
from basegraph.engines.distributed.engine import PARENT_ENDED, DistributedEngine
from basegraph.engines.distributed.membership.fixed import FixedMembership
from basegraph.engines.distributed.membership.group import join
from basegraph.engines.distributed.membership.handshake import require_alike, texts_of_all, together
from basegraph.engines.distributed.membership.progress import seconds
from basegraph.engines.distributed.membership.torchrun import job, restarts
from basegraph.engines.distributed.recovery import survivors
from basegraph.engines.distributed.recovery.node_files import NodeFiles
from basegraph.engines.distributed.recovery.survivors import Restart
from basegraph.engines.distributed.shutdown.deadline import logged_signals_with_deadline
from basegraph.engines.vectors import from_names
from basegraph.errors import BasegraphError, Interrupted, InvalidArgument, PeerLost
from basegraph.training.config import RunConfig
from basegraph.training.datasets import load_dataset
from basegraph.training.folder import RunFolder, open_run
from basegraph.training.loop import Loop
from basegraph.training.metrics import Metrics
from basegraph.training.modules import build_model, require_vocabulary
from basegraph.training.problem import Problem
from basegraph.training.run import Diverged, Run
from basegraph.training.threads import choose_threads, using_threads
from basegraph.training.watcher import Watcher

SURVIVOR: checkpoint.Schema = {
    "steps_per_epoch": checkpoint.integer(1),
    "loss_sum": checkpoint.number(),
    "loss_count": checkpoint.integer(0),
    "seconds": checkpoint.number(0),
    "bytes": checkpoint.number(0, required=False),
    "config": checkpoint.TABLE,
    "fingerprint": checkpoint.TEXT,
}
"""What a node of a run saves when another is lost, besides what every survivor saves."""


def world_size() -> int:
    """How many processes torchrun has started; refused where it has not."""
    if "WORLD_SIZE" not in os.environ or "RANK" not in os.environ:
        raise InvalidArgument(
            "engine",
            "distributed",
            "start it with torchrun, for example torchrun --nproc-per-node 5 -m basegraph train",
        )
    return int(os.environ["WORLD_SIZE"])


def train_distributed(
    config: RunConfig,
    out: Path,
    *,
    resume: bool = False,
    watcher: Watcher | None = None,
    timeout: float = 300.0,
) -> list[Metrics]:
    """Train one node of a run in this process, or continue a run; torchrun starts all nodes.

    Args:
        config: Everything that determines the run.
        out: The folder of the run, which node 0 writes.
        resume: Continue the run in the folder.
        watcher: What node 0 calls at the start, after a step and after an evaluation.
        timeout: Seconds after which a node that does not answer counts as lost.

    Returns:
        The rows of metrics.jsonl.

    Raises:
        PeerLost: If a node was lost; this one has saved its model.

    """
    n = world_size()
    config = replace(config, nodes=n)
    device = _device(config)
    seconds(timeout, "timeout")
    backend = "nccl" if device.type == "cuda" else "gloo"
    join(backend, timeout)
    membership = FixedMembership(timeout=timeout, device=device)
    node = membership.node
    stack = ExitStack()  # node 0's lock on the folder

    def prepare() -> tuple[Dataset, Problem, RunFolder]:
        if node == 0:
            folder = stack.enter_context(open_run(out, resume=resume))
        else:
            folder = RunFolder(out, resume=False, writes=False)
        dataset = load_dataset(config)
        module = build_model(config, dataset)
        require_vocabulary(module, dataset, config.model)
        return dataset, Problem(config, dataset, module), folder

    try:
        require_alike(config.same_on_all_nodes(), membership)
        dataset, problem, folder = together(prepare, membership)
        require_alike({"data or model": problem.fingerprint}, membership)
        engine = DistributedEngine(dataset, problem, membership)
        threads = choose_threads(config, problem.model, dataset, device, 1)
        calls = (watcher if node == 0 else None) or Watcher()
        run = ElasticRun(problem, engine, folder, calls, threads.evaluations)
        run.begin_or_restart(dataset)
        with using_threads(threads.steps), logged_signals_with_deadline(membership) as log:
            try:
                (result,) = Loop(engine, [run]).run(log.received)
            except PeerLost as error:
                raise run.rescued(error) from None
            except Interrupted as error:
                if error.signal == PARENT_ENDED:
                    error.args = (f"torchrun has ended: {error}",)
                raise
        if isinstance(result, Diverged):
            raise result
        return result
    except BasegraphError as error:
        if not isinstance(error, PeerLost):
            error.reported_by = 0
        raise
    finally:
        stack.close()
        dist.destroy_process_group()


class ElasticRun(Run):
    """A run of which this process is a node."""

    def __init__(
        self,
        problem: Problem,
        engine: DistributedEngine,
        folder: RunFolder,
        watcher: Watcher,
        evaluation_threads: int,
    ) -> None:
        super().__init__(problem, engine, folder, watcher, evaluation_threads)
        self.engine = engine
        self.files = NodeFiles(folder.nodes, engine.membership)

    def begin_or_restart(self, dataset: Dataset) -> None:
        """Start the folder, continue from its checkpoint, or begin again after a fault."""
        engine, folder = self.engine, self.folder
        saved = together(self.load, engine.membership)
        resumes = folder.resume or restarts() > 0
        agreed = self._from_node_0({"resumes": resumes, "facts": saved.facts if saved else {}})
        facts = agreed["facts"]
        saved = saved or Checkpoint({}, facts)
        again = self._survivors(facts) if agreed["resumes"] else None
        if again is None and facts and facts["config"]["nodes"] != engine.n:
            self._refuse_ended(facts)
            again = self._average_of(saved)
        if again is not None:
            self._begin_again(again, dataset)
        elif facts:
            self._continue(saved)
        else:
            self._at_node_0(lambda: folder.start(self.config, dataset, self.facts()))
        self._at_node_0(lambda: folder.belongs_to(job()))
        self.files.begin()  # the run's checkpoint holds all that was in the nodes' files
        self.watcher.started(self.facts())

    def rescued(self, error: PeerLost) -> PeerLost:
        """Save this node's model after the last completed step, and say where."""
        outcome = self.files.rescue(self.engine.x_d, self.engine.step, self.progress())
        return PeerLost(f"{error}; {outcome}: resume the run to continue", error.node)

    def has_row(self, epoch: int) -> bool:
        """Whether node 0 has evaluated this epoch."""
        return bool(self._from_node_0({"has_row": super().has_row(epoch)})["has_row"])

    def _at_node_0(self, write: Callable[[], None]) -> None:
        """Write to the folder (elsewhere that does nothing), and all stop if it cannot be done."""
        together(write, self.engine.membership)

    def _survivors(self, facts: dict[str, Any]) -> Restart | None:
        """Where the survivors are, except those that the checkpoint has overtaken since."""
        reached = _epochs(facts) if facts else Fraction(0)

        def left_out(one: dict[str, Any]) -> str:
            if one["fingerprint"] != self.problem.fingerprint:
                raise CheckpointError("was run on other data or models")
            if _epochs(one) > (last := self.config.epochs):
                most = last * one["steps_per_epoch"]
                raise CheckpointError(f"step={one['step']}: must be at most {most}")
            start, before = one.get("generation", 0), self.files.generation - 1
            if start < before:
                return f"is of start {start}; the run is at start {before}"
            behind = _epochs(one) < reached
            return f"epoch {float(_epochs(one)):.2f} is behind the checkpoint's" if behind else ""

        return survivors.restart(
            self.folder.nodes,
            self.engine.x_d,
            self.engine.membership,
            schema=SURVIVOR,
            left_out=left_out,
        )

    def _refuse_ended(self, facts: dict[str, Any]) -> None:
        """Refuse to change a run that has ended with another number of nodes."""
        if facts["step"] >= facts["config"]["epochs"] * facts["steps_per_epoch"]:
            raise InvalidArgument(
                "out",
                str(self.folder.path),
                f"holds a run that has ended, with {facts['config']['nodes']} nodes",
            )

    def _from_node_0(self, facts: dict[str, Any]) -> dict[str, Any]:
        """What node 0 has passed to this call, at every node."""
        texts = texts_of_all(json.dumps(facts), self.engine.membership)
        agreed: dict[str, Any] = json.loads(texts[0])
        return agreed

    def _average_of(self, saved: Checkpoint) -> Restart:
        """The average of a checkpoint's nodes, of which there is another number now."""
        tensors, facts = saved
        before, method = facts["config"]["nodes"], self.problem.method
        x_d = torch.empty_like(self.engine.x_d)
        if tensors:
            kind = type(method.init(x_d[None]))
            models = method.gradient_point(*from_names(tensors, kind))
            x_d.copy_(models.double().mean(dim=0))
        broadcast(x_d, self.engine.membership, "the restart")
        return Restart(x_d, facts["step"], list(range(before)), before, facts)

    def _begin_again(self, again: Restart, dataset: Dataset) -> None:
        engine, folder = self.engine, self.folder
        config = {**again.facts["config"], "nodes": engine.n}
        self._require_same({**again.facts, "config": config})
        before, epochs = again.facts["steps_per_epoch"], float(_epochs(again.facts))
        engine.begin_again(again.x_d, again.step * engine.steps_per_epoch // before)
        self._count_from(again.facts)
        what = {
            "epoch": round(epochs, 3),
            "survivors": again.survivors,
            "nodes_before": again.before,
            "nodes": engine.n,
        }

        def write() -> None:
            if not folder.config.exists():  # the node 0 that was lost had it on its own machine
                folder.start(self.config, dataset, self.facts())
            self._keep_rows(again.step, before)
            folder.restart(self.config, what)

        self._at_node_0(write)
        self.save()
        self.watcher.noted(
            f"{again}, at epoch {epochs:.2f}, with a fresh state of {self.config.algorithm}; now "
            f"{engine.n} nodes: {self.config.topology} and the data split are for n={engine.n}"
        )


def _epochs(facts: dict[str, Any]) -> Fraction:
    """How far a checkpoint's run had come."""
    return Fraction(facts["step"], facts["steps_per_epoch"])


def _device(config: RunConfig) -> torch.device:
    """A GPU of its own for every process of a machine, if GPUs are asked for or available."""
    name = config.device
    if name == "cuda" or (name == "auto" and torch.cuda.is_available()):
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    device = pick_device(name)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device
