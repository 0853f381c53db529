"""`ElasticRun`: where a run stands of which this process is a node, and how it goes on with others.

Survivors of a lost node go on at once where nodes join and leave. Otherwise each saves its model in
the folder `nodes` of the run, and whoever resumes the run, with any number of nodes, begins from
their average. Either way the topology is built and the data are split for the new number of nodes,
and the run goes on at the same epoch.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch

from basegraph.data.dataset import Dataset
from basegraph.engines import checkpoint
from basegraph.engines.checkpoint import Checkpoint, CheckpointError
from basegraph.engines.distributed.collectives import broadcast
from basegraph.engines.distributed.engine import DistributedEngine
from basegraph.engines.distributed.membership.handshake import texts_of_all, together
from basegraph.engines.distributed.membership.torchrun import restarts
from basegraph.engines.distributed.recovery import survivors
from basegraph.engines.distributed.recovery.node_files import NodeFiles
from basegraph.engines.distributed.recovery.survivors import Restart
from basegraph.engines.vectors import from_names
from basegraph.errors import BasegraphError, InvalidArgument, PeerLost
from basegraph.training.folder import RunFolder, belongs_to
from basegraph.training.metrics import Metrics
from basegraph.training.problem import Problem, same_fingerprint
from basegraph.training.run import Run
from basegraph.training.standing import change_of_nodes, epochs_of, has_ended, merged
from basegraph.training.watcher import Watcher

LOG = logging.getLogger("basegraph")
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


class ElasticRun(Run):
    """A run of which this process is a node; all nodes make it together.

    Args:
        problem: What it computes, for the present number of nodes.
        engine: Its nodes.
        folder: Its files, which node 0 writes.
        watcher: What node 0 calls on the way.
        evaluation_threads: CPU threads of an evaluation.
        job: The job whose nodes these are: only that one goes on with the run unasked.

    """

    def __init__(
        self,
        problem: Problem,
        engine: DistributedEngine,
        folder: RunFolder,
        watcher: Watcher,
        evaluation_threads: int,
        job: str,
    ) -> None:
        super().__init__(problem, engine, folder, watcher, evaluation_threads)
        self.engine = engine
        self.job = job
        self.files = NodeFiles(folder.nodes, engine.membership)
        self._configured = True  # whether config.toml has the present number of nodes

    # -- start -------------------------------------------------------------------------------

    def begin_or_restart(self, dataset: Dataset) -> None:
        """Start the folder, continue from its checkpoint, or begin again after a fault."""
        engine, folder = self.engine, self.folder
        saved = together(self.load, engine.membership)
        resumes = folder.resume or restarts() > 0
        own = belongs_to(folder.path, self.job)
        agreed = self._from_node_0(
            {"resumes": resumes, "facts": saved.facts if saved else {}, "own": own}
        )
        facts = agreed["facts"]
        saved = saved or Checkpoint({}, facts)
        again = self._survivors(facts) if agreed["resumes"] else None
        if again is None and facts and facts["config"]["nodes"] != engine.n:
            if agreed["own"] and has_ended(facts):
                self._show_end(saved)
                return
            self._refuse_ended(facts)
            again = self._average_of(saved)
        if again is not None:
            self._begin_again(again, dataset)
        elif facts:
            self._continue(saved)
        else:
            self._at_node_0(lambda: folder.start(self.config, dataset, self.facts(), self.job))
        self._at_node_0(lambda: folder.belongs_to(self.job))
        self.files.begin()  # the run's checkpoint holds all that was in the nodes' files
        self.watcher.started(self.facts())

    def go_on(
        self,
        standing: dict[str, Any],
        dataset: Dataset,
        *,
        takes_over: bool,
    ) -> None:
        """Go on where the nodes stand that are there now.

        Args:
            standing: How far the furthest of them is, as `progress` says it; `rows`; and `changes`
                of the nodes, to be recorded.
            dataset: The data, for a folder that has to be started on this node's machine.
            takes_over: Whether this is node 0 and was not before.

        """
        engine, folder = self.engine, self.folder
        self._configured = False
        saved = self._ahead_of(standing) if takes_over else None
        agreed = self._from_node_0(
            {"facts": saved.facts if saved else {}, "takes_over": takes_over}
        )
        if agreed["facts"]:  # all nodes that had come so far are gone
            saved = saved or Checkpoint({}, agreed["facts"])
            if has_ended(saved.facts):
                self._show_end(saved)
                return
            again = self._average_of(saved)
            engine.begin_again(again.x_d, self._step_at(again.facts))
            self._count_from(again.facts)
        else:
            self._count_from(standing)
            self.reported = standing["reported"]
        self.rows = standing["rows"]

        def write() -> None:
            if takes_over:
                folder.clear_leftovers()
                if not folder.config.exists():  # the node 0 before had it on its own machine
                    folder.start(self.config, dataset, self.facts(), self.job)
                self.rows = self._until_now(merged(folder.rows(), self.rows))
                folder.keep(self.rows)
                folder.belongs_to(self.job)
            folder.record(*standing["changes"])

        self._at_node_0(write)
        self.files.begin()
        if agreed["takes_over"]:
            self.watcher.started(self.facts())
            self.save()

    # -- on the way --------------------------------------------------------------------------

    def rescued(self, error: PeerLost) -> PeerLost:
        """Save this node's model after the last completed step, and say where."""
        outcome = self.files.rescue(self.engine.x_d, self.engine.step, self.progress())
        return PeerLost(f"{error}; {outcome}: resume the run to continue", error.node)

    def has_row(self, epoch: int) -> bool:
        """Whether node 0 has evaluated this epoch."""
        return bool(self._from_node_0({"has_row": super().has_row(epoch)})["has_row"])

    def save(self) -> None:
        """Write a checkpoint, and the number of nodes that it has."""
        super().save()
        if not self._configured:
            self.folder.configure(self.config)
        self._configured = True

    def _bytes_of_these_nodes(self) -> float:
        return self.problem.bytes_sent(self.engine.step - self.engine.rounds_from)

    # -- what the folder holds ---------------------------------------------------------------

    def _at_node_0(self, write: Callable[[], None]) -> None:
        """Write to the folder (elsewhere that does nothing), and all stop if it cannot be done."""
        together(write, self.engine.membership)

    def _from_node_0(self, facts: dict[str, Any]) -> dict[str, Any]:
        """What node 0 has passed to this call, at every node."""
        texts = texts_of_all(json.dumps(facts), self.engine.membership)
        agreed: dict[str, Any] = json.loads(texts[0])
        return agreed

    def _ahead_of(self, standing: dict[str, Any]) -> Checkpoint | None:
        """The checkpoint, if it is further than the nodes are."""
        try:
            saved = self.load()
        except BasegraphError as error:  # the nodes have all that is needed to write another
            LOG.warning("%s", error)
            return None
        return saved if saved and epochs_of(saved.facts) > epochs_of(standing) else None

    def _survivors(self, facts: dict[str, Any]) -> Restart | None:
        """Where the survivors are, except those that the checkpoint has overtaken since."""
        reached = epochs_of(facts) if facts else Fraction(0)

        def left_out(one: dict[str, Any]) -> str:
            if not same_fingerprint(one["fingerprint"], self.problem.fingerprint):
                raise CheckpointError("was run on other data or models")
            if epochs_of(one) > (last := self.config.epochs):
                most = last * one["steps_per_epoch"]
                raise CheckpointError(f"step={one['step']}: must be at most {most}")
            start, before = one.get("generation", 0), self.files.generation - 1
            if start < before:
                return f"belongs to start {start} of the job; the run is at start {before}"
            behind = epochs_of(one) < reached
            return f"epoch {float(epochs_of(one)):.2f} is behind the checkpoint's" if behind else ""

        return survivors.restart(
            self.folder.nodes,
            self.engine.x_d,
            self.engine.membership,
            schema=SURVIVOR,
            left_out=left_out,
        )

    def _refuse_ended(self, facts: dict[str, Any]) -> None:
        """Refuse to change a run that has ended with another number of nodes."""
        if has_ended(facts):
            raise InvalidArgument(
                "out",
                str(self.folder.path),
                f"holds a run that has ended, with {facts['config']['nodes']} nodes",
            )

    def _show_end(self, saved: Checkpoint) -> None:
        """Stand at the end of a run that has ended: nothing is left to do or to write."""
        self.engine.begin_again(self._average_of(saved).x_d, self.problem.total_steps)
        self._count_from(saved.facts)
        self.rows = self.folder.rows()

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
        epochs = float(epochs_of(again.facts))
        engine.begin_again(again.x_d, self._step_at(again.facts))
        self._count_from(again.facts)
        names = [f"node {node}" for node in range(again.before)]
        left = [name for node, name in enumerate(names) if node not in again.survivors]
        members = engine.membership.members
        what = {
            **change_of_nodes(names, members, engine.step, epochs, left=left),
            "survivors": again.survivors,
        }

        def write() -> None:
            if not folder.config.exists():  # the node 0 that was lost had it on its own machine
                folder.start(self.config, dataset, self.facts(), self.job)
            self._keep_rows(again.step, again.facts["steps_per_epoch"])
            folder.record(what)
            folder.configure(self.config)

        self._at_node_0(write)
        self.save()
        self.watcher.noted(
            f"{again}, at epoch {epochs:.2f}, with a fresh state of {self.config.algorithm}; now "
            f"{engine.n} nodes: {self.config.topology} and the data split are for n={engine.n}"
        )

    def _step_at(self, facts: dict[str, Any]) -> int:
        """The step of the present number of nodes that is as far as another number had come."""
        return int(epochs_of(facts) * self.problem.steps_per_epoch)

    def _until_now(self, rows: list[Metrics]) -> list[Metrics]:
        last = self.engine.step
        return [row for row in rows if row["epoch"] * self.problem.steps_per_epoch <= last]
