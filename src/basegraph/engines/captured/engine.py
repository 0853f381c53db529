"""The captured engine: the stacked nodes' step as one CUDA graph, compiled where asked for.

Shape legend: N nodes of all runs together, n of one; x_nd nodes × parameters; samples
(N, B, C, H, W); labels (N, B); tables (steps of an epoch, N, ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from basegraph.data.dataset import Dataset
from basegraph.data.plan import EpochPlan
from basegraph.engines.captured.graph import CapturedStep, Compiled, Tables
from basegraph.engines.captured.prefetch import Prefetch
from basegraph.engines.captured.tables import RoundTables
from basegraph.engines.captured.two_state_tables import TwoStateTables
from basegraph.engines.clipping import clipped
from basegraph.engines.contract import EngineProblem
from basegraph.engines.stacked.losses import PendingLosses, signals_of_one_process
from basegraph.engines.stacked.nodes import StackedNodes
from basegraph.engines.stacked.view import StackedRun, batched_outputs
from basegraph.models.gradients import gradients_of, products_in
from basegraph.topologies.two_states.sequence import AnyTopology, TwoStateSequence


class CapturedEngine:
    """Replays a step that was captured once; the numbers are those of `StackedEngine`.

    Args:
        dataset: What all runs are trained on.
        problems: One per run; they may differ in seed, learning rate, α and topology.

    """

    def __init__(self, dataset: Dataset, problems: Sequence[EngineProblem]) -> None:
        self.nodes = nodes = StackedNodes(dataset, problems)
        self._rounds = tables_of([problem.topology for problem in problems])
        self._prefetch = Prefetch(self._tables)
        self._graph: CapturedStep | None = None  # captured at the first step, with its tables
        self._position: tuple[int, int] | None = None  # epoch, step of it: where the graph is
        self._fetched = 0  # steps of this epoch whose losses have been fetched
        self._losses = PendingLosses(nodes)
        compiles = nodes.config.compile
        hardware = nodes.hardware("captured", *(["compiled"] if compiles else []))
        outputs = batched_outputs(nodes, Compiled if compiles else None)
        self.runs = [
            StackedRun(nodes, i, outputs, hardware, one_shape=compiles)
            for i in range(len(problems))
        ]

    @property
    def step(self) -> int:
        """Steps made so far."""
        return self.nodes.step

    def advance(self) -> None:
        """Make one step of every run."""
        nodes = self.nodes
        epoch, within = divmod(nodes.step, nodes.steps_per_epoch)
        graph = self._graph
        if graph is None or self._position != (epoch, within):
            graph = self._begin(epoch, within)
        x_nd, *state = graph(self._communicates(nodes.step))
        nodes.x_nd, nodes.state = x_nd, type(nodes.state)(*state)
        nodes.step += 1
        self._position = epoch, within + 1

    def _communicates(self, step: int) -> bool:
        """Whether a step ends with a round: of all runs, which share the number of local steps."""
        return self.nodes.problems[0].round_number(step) is not None

    def losses(self) -> list[Tensor]:
        """The losses (steps, n) of each run, at the steps since the last call."""
        self._fetch_losses()
        return self._losses.take()

    def losses_due(self, signals: Sequence[int]) -> bool:
        """Whether enough steps are pending, or a signal asks to stop."""
        made = self._position[1] if self._position else 0
        return self._losses.due(signals, elsewhere=made - self._fetched)

    agree_on_signals = staticmethod(signals_of_one_process)

    def _begin(self, epoch: int, within: int) -> CapturedStep:
        """Go on at this step of an epoch, with the epoch's tables on the device."""
        nodes = self.nodes
        self._fetch_losses()
        tables = self._prefetch.get(epoch)
        if self._graph is None:
            self._graph = self._capture(tables)
        self._graph.begin(tables, within)
        if (epoch + 1) * nodes.steps_per_epoch < nodes.total_steps:
            self._prefetch.begin(epoch + 1)  # not earlier: it would disturb a capture
        self._fetched = within
        return self._graph

    def _fetch_losses(self) -> None:
        """Copy the losses of this epoch before the next epoch's overwrite them."""
        if self._graph is None or self._position is None:
            return
        _, made = self._position
        self._losses.extend(self._graph.losses[self._fetched : made].clone())
        self._fetched = made

    def _tables(self, epoch: int) -> Tables:
        """Everything that the steps of an epoch read, in memory that a GPU can fetch from."""
        nodes, first = self.nodes, epoch * self.nodes.steps_per_epoch
        steps = range(first, first + nodes.steps_per_epoch)
        rates = [[problem.learning_rate(step) for problem in nodes.problems] for step in steps]
        lr = torch.tensor(rates, dtype=torch.float32)
        tables = {**nodes.plan(epoch), "lr": lr.repeat_interleave(nodes.n, dim=1)[..., None]}
        if not nodes.method.centralized:
            tables |= self._rounds.of(
                [[problem.round_number(step) for problem in nodes.problems] for step in steps]
            )
        return {name: table.pin_memory() for name, table in tables.items()}

    def _capture(self, tables: Tables) -> CapturedStep:
        """The step in two functions, each of which a compiler can take whole.

        A step at which no node communicates is a graph of its own, which mixes nothing and leaves
        what is slow of the state where it is.
        """
        nodes, method = self.nodes, self.nodes.method
        kind = type(nodes.state)
        names = ("x", *kind._fields)
        planned = [name for name in EpochPlan._fields if name in tables]

        def batch(tables: Tables, counter: Tensor) -> tuple[Tensor, Tensor]:
            return nodes.data.batch({name: tables[name][counter].squeeze(0) for name in planned})

        def losses(at: Tensor, tables: Tables, counter: Tensor) -> Tensor:
            return nodes.gradients.losses(at, *batch(tables, counter))

        def move(
            source: list[Tensor],
            target: list[Tensor],
            gradients: Tensor,
            tables: Tables,
            counter: Tensor,
            communicates: bool,
        ) -> None:
            x_nd, *state = source
            now = {name: table[counter].squeeze(0) for name, table in tables.items()}
            mix = None
            if communicates:
                mix = nodes.average if method.centralized else self._rounds.mix(now)
            gradients = clipped(gradients, nodes.config.clip)
            new, moved = method.move(x_nd, gradients, kind(*state), now["lr"], mix, nodes.decay)
            for name, into, value in zip(names, target, (new, *moved), strict=True):
                if communicates or name not in method.slow:
                    into.copy_(value)

        fast = Compiled if nodes.config.compile else _as_it_is
        fast_losses, fast_move = fast(losses), fast(move)

        def body(
            communicates: bool,
            tables: Tables,
            counter: Tensor,
            source: list[Tensor],
            target: list[Tensor],
        ) -> Tensor:
            x_nd, *state = source
            at = method.gradient_point(x_nd, kind(*state))
            if nodes.gradients.by_hand_on(nodes.device):
                values, gradients = nodes.gradients(at, *batch(tables, counter))
            else:
                with products_in(nodes.config.precision):
                    values, gradients = gradients_of(lambda x: fast_losses(x, tables, counter), at)
            with products_in("float32"), torch.no_grad():
                fast_move(source, target, gradients, tables, counter, communicates)
            return values

        kinds = (True,) if nodes.config.local_steps == 1 else (False, True)
        return CapturedStep(
            {communicates: partial(body, communicates) for communicates in kinds},
            tables,
            [nodes.x_nd, *nodes.state],
            in_place=[names.index(name) for name in method.slow],
        )


def tables_of(topologies: Sequence[AnyTopology]) -> RoundTables | TwoStateTables:
    """The tables of the runs' rounds, all with one vector per node or all with two."""
    two = [t for t in topologies if isinstance(t, TwoStateSequence)]
    if two:
        return TwoStateTables(two)
    return RoundTables([t for t in topologies if not isinstance(t, TwoStateSequence)])


def _as_it_is(function: Any) -> Any:
    return function
