"""A run whose nodes join and leave: one node per process, and whoever is node 0 writes the folder.

Between two changes of the nodes a run goes on as any other (`ElasticRun`, `Loop`). At a change the
nodes agree on how far the run has come, build its problem for their number, and begin a new
`ElasticRun` from there; the engine keeps this node's model.
"""

from __future__ import annotations

import json
import logging
import secrets
import signal
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from basegraph import launched
from basegraph.algorithms._stability import Unstable
from basegraph.data.dataset import Dataset
from basegraph.engines.distributed.engine import DistributedEngine
from basegraph.engines.distributed.membership.handshake import texts_of_all, together
from basegraph.engines.distributed.membership.live import LiveMembership
from basegraph.engines.distributed.membership.meeting import Meeting
from basegraph.engines.distributed.recovery.node_files import NodeFiles
from basegraph.engines.distributed.shutdown.deadline import STOP_SECONDS
from basegraph.engines.distributed.turnover import MembershipChange, Turnover
from basegraph.engines.signals import SignalLog
from basegraph.errors import Interrupted, PeerLost
from basegraph.training.config import RunConfig
from basegraph.training.elastic_run import SURVIVOR, ElasticRun
from basegraph.training.folder import RunFolder, belongs_to, open_run
from basegraph.training.loop import Loop
from basegraph.training.metrics import Metrics
from basegraph.training.problem import Problem
from basegraph.training.run import Diverged
from basegraph.training.standing import change_of_nodes, epochs_of, merged
from basegraph.training.watcher import Watcher

LOG = logging.getLogger("basegraph")


class NodesChanged(Exception):
    """The nodes have changed in a meeting: the run goes on with those that are there now."""


class LiveRun:
    """A run with nodes that join and leave, as one of them sees it.

    Args:
        config: What is asked; its number of nodes does not matter.
        out: The folder of the run.
        resume: Whether the run in it is to be continued.
        watcher: What this node calls while it is node 0.
        data: The data and the model.
        membership: Who the nodes are.
        signals: The signals that ask to stop.
        evaluation_threads: CPU threads of an evaluation.

    """

    def __init__(
        self,
        config: RunConfig,
        out: Path,
        *,
        resume: bool,
        watcher: Watcher,
        data: tuple[Dataset, nn.Module],
        membership: LiveMembership,
        signals: SignalLog,
        evaluation_threads: int,
    ) -> None:
        self.config = config
        self.out = out
        self.resume = resume
        self.watcher = watcher
        self.dataset, self.module = data
        self.membership = membership
        self.signals = signals
        self.evaluation_threads = evaluation_threads
        self.problem = self._problem_for(1)
        self.engine = DistributedEngine(self.dataset, self.problem, membership)
        self.turnover = Turnover(self.engine.method.node, membership, self)
        self.run: ElasticRun | None = None
        self._open = ExitStack()  # with the lock on the folder, at node 0
        self._folder: RunFolder | None = None
        self._files: NodeFiles | None = None
        self._began = 0.0  # when the run had taken no seconds yet, by `time.perf_counter`
        self._standing: dict[str, Any] = {
            "begun": False,
            "step": 0,
            "steps_per_epoch": 1,
            "job": launched.job() or secrets.token_hex(4),
            "rows": [],
            "changes": [],  # which node 0 has not recorded yet
        }
        self._agreed = self._standing
        facts = config.same_on_all_nodes() | {"data or model": self.problem.fingerprint}
        del facts["nodes"]
        membership.introduce({**self.engine.method.node.facts(), **facts})

    def train(self) -> list[Metrics]:
        """Train to the end, with whatever nodes there are.

        Returns:
            The rows of metrics.jsonl.

        Raises:
            Interrupted: A signal came; node 0 has written a checkpoint.
            PeerLost: The others cannot be found; this node has saved its model.
            Diverged: A model is not finite.

        """
        try:
            self.turnover.start()
            while True:
                try:
                    return self._train_with_these_nodes()
                except NodesChanged:
                    continue
                except PeerLost as error:
                    self.turnover.recover(error)
        except PeerLost as error:
            raise PeerLost(f"{error}{self._rescue()}", error.node) from None
        finally:
            self._open.close()
            self.membership.close()

    def _train_with_these_nodes(self) -> list[Metrics]:
        self.run = run = self._begun_run()
        self._began = time.perf_counter() - run.seconds
        loop = Loop(self.engine, [run], self._meet_if_due)
        (result,) = loop.run(self.signals.received)
        if isinstance(result, Diverged):
            raise result
        together(lambda: None, self.membership, "the end")  # node 0 has written all
        return result

    def _meet_if_due(self) -> None:
        epoch = self.membership.epoch
        self.turnover.after_step()
        if self.membership.epoch != epoch:
            raise NodesChanged

    def _begun_run(self) -> ElasticRun:
        """The run with the nodes that are there now; all of them make it together."""
        membership, standing = self.membership, self._standing
        together(self._let_folder_go, membership)
        before = self._folder
        folder = together(self._opened_folder, membership)
        watcher = self.watcher if folder.writes else Watcher()
        run = ElasticRun(
            self.problem, self.engine, folder, watcher, self.evaluation_threads, standing["job"]
        )
        if standing["begun"]:
            takes_over = folder.writes and folder is not before
            run.go_on(standing, self.dataset, takes_over=takes_over)
        else:
            run.begin_or_restart(self.dataset)
        self._standing = {**standing, "changes": []}
        self._files = run.files
        return run

    # -- the folder --------------------------------------------------------------------------

    def _let_folder_go(self) -> None:
        """Leave the folder to another node 0; it may have taken it while this one was stopped."""
        if self._folder is not None and (self.membership.node or self._folder.taken):
            self._open.close()
            self._folder = None

    def _opened_folder(self) -> RunFolder:
        if self.membership.node:
            return RunFolder(self.out, resume=False, writes=False)
        if self._folder is None:
            job = self._standing["job"]
            resume = self.resume or belongs_to(self.out, job)
            if self._standing["begun"]:
                resume = (self.out / "config.toml").is_file()
            self._folder = self._open.enter_context(open_run(self.out, resume=resume, job=job))
        return self._folder

    # -- what `Turnover` asks for --------------------------------------------------------------

    @property
    def gossip_step(self) -> int:
        """Steps made so far, counted as with the present number of nodes."""
        return self.engine.step

    @property
    def all_models_equal(self) -> bool:
        """Whether all nodes hold the same model at every step."""
        return self.problem.method.centralized

    @property
    def asked_to_stop(self) -> bool:
        """Whether a signal came so long ago that a meeting must not be waited for any more."""
        first = self.signals.first_at
        return first is not None and time.monotonic() - first > STOP_SECONDS

    def leave(self) -> BaseException:
        """Save this node's model; the exception that ends the run here."""
        number = self.signals.received[0]
        return Interrupted(f"stopped by {signal.Signals(number).name}{self._rescue()}", number)

    def pack(self) -> dict[str, Any]:
        """The model and the method's state of this node, and where the run stands."""
        return {"vectors": self.engine.method.vectors(), "run": json.dumps(self._stands())}

    def unpack(self, content: dict[str, Any]) -> None:
        """Go on as the node that has packed this."""
        self.engine.method.restore(content["vectors"])
        self._standing, self.run = json.loads(content["run"]), None

    def settle(self, meeting: Meeting) -> int:
        """Agree on where the run stands: where the furthest node does, in epochs."""
        own = self._stands()
        said = {**own, "rows": own["rows"][-1:]}  # the last one may be known to some only
        texts = texts_of_all(json.dumps(said), self.membership, "the meeting")
        everyone = [json.loads(text) for text in texts]
        best = max(everyone, key=lambda one: (one["begun"], epochs_of(one)))
        changes = {change["change"]: change for one in everyone for change in one["changes"]}
        self._agreed = {
            **best,
            "rows": merged(own["rows"], best["rows"]),
            "changes": [changes[number] for number in sorted(changes)],
        }
        self.problem = self._problem_for(self.membership.n)
        return int(epochs_of(best) * self.problem.steps_per_epoch)

    def nodes_changed(self, change: MembershipChange) -> None:
        """Go on with other nodes at the step of the change; the run with them begins later."""
        epochs = float(epochs_of(self._agreed))
        self._standing = {
            **self._agreed,
            "step": change.step,
            "steps_per_epoch": self.problem.steps_per_epoch,
        }
        self.engine.go_on(self.problem, change.step)
        self.run = None
        if self._standing["begun"]:
            before = sorted({*change.members, *change.left} - {*change.joined})
            what = change_of_nodes(before, change.members, change.step, epochs)
            self._standing["changes"].append({**what, "change": change.epoch})

    def _stands(self) -> dict[str, Any]:
        """Where the run stands, as far as this node knows."""
        run = self.run
        if run is None:
            return self._standing
        return {
            **self._standing,
            **run.progress(),
            "begun": True,
            "step": self.engine.step,
            "seconds": time.perf_counter() - self._began,
            "reported": run.reported,
            "rows": run.rows,
        }

    def _rescue(self) -> str:
        """Save this node's model in the run's folder `nodes`; where, or why not."""
        standing = self._stands()
        if not standing["begun"] or self._files is None:
            return ""
        facts = {name: standing[name] for name in SURVIVOR if name in standing}
        outcome = self._files.rescue(self.engine.x_d, self.engine.step, facts)
        return f"; {outcome}: resume the run to continue"

    def _problem_for(self, n: int) -> Problem:
        """The problem for this number of nodes, even if the method is unstable with so many."""
        config = replace(self.config, nodes=n)
        try:
            return Problem(config, self.dataset, self.module)
        except Unstable as error:
            if self.membership.node == 0:
                LOG.warning("%s", error)
            return Problem(replace(config, allow_unstable=True), self.dataset, self.module)
