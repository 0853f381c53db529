"""Which topology, method and order to take for a network, a model and data: `bg.advise`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from basegraph.errors import InvalidArgument
from basegraph.experiments.advice_options import METHOD, TOPOLOGIES, TWO_STATE_METHOD
from basegraph.experiments.choice import LEVEL, BreakEven, Choice
from basegraph.experiments.measured_accuracy import evidence
from basegraph.topologies.analysis.network import ALL_REDUCES, Load, Network, load
from basegraph.topologies.analysis.step_time import ORDERS, ddp_exchange, ddp_step, gossip_step
from basegraph.topologies.catalog import TWO_STATE_NAMES, parse_spec, topology
from basegraph.topologies.core._digest import digest
from basegraph.topologies.core.integers import at_least
from basegraph.units import bandwidth as read_bandwidth
from basegraph.units import bytes_text, model_bytes, rate_text, seconds_text
from basegraph.units import seconds as read_seconds

MOST_NODES = 10_000
BANDWIDTHS = np.geomspace(1e3, 1e13, 241)
"""Bytes per second between which the break-even against DDP is looked for."""
OVERLAPS, EXCHANGES_LAST = ORDERS


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What `advise` says: the ways to train, the best first, and what they are for."""

    nodes: int
    model_bytes: int
    network: Network
    step_time: float
    """Seconds that a step computes."""
    alpha: float | None
    choices: tuple[Choice, ...]

    @property
    def best(self) -> Choice:
        """The first choice."""
        return self.choices[0]

    @property
    def situation(self) -> str:
        """What was asked, in a line."""
        data = "data alike on all nodes" if self.alpha is None else f"α = {self.alpha:g}"
        return (
            f"{self.nodes} nodes, {bytes_text(self.model_bytes)}, links of "
            f"{rate_text(self.network.bandwidth)}, latency {seconds_text(self.network.latency)}, "
            f"{seconds_text(self.step_time)} of computing a step, {data}"
        )

    def rows(self) -> list[dict[str, Any]]:
        """The choices with all that is known of them, for JSON."""
        return [choice.row() for choice in self.choices]


def advise(
    nodes: int,
    *,
    bandwidth: str | float,
    model_size: str | int,
    step_time: str | float,
    latency: str | float = "1ms",
    alpha: float | None = None,
    topologies: Iterable[str] = TOPOLOGIES,
) -> Advice:
    """Rank topologies, orders and DDP for your nodes, network, model and data.

    Step times are predicted by the model of `basegraph bench model` with what overlaps
    (`topologies/analysis/step_time.py` states the assumptions). Times within 2 % count as level;
    among those DDP comes first, then what our runs did not find behind `base:k=1`, what they did
    not measure, and what they found behind.

    Args:
        nodes: Number of nodes, each with a link of its own.
        bandwidth: Of a link in each direction, such as "1Gbit" or "25MB"; a number is bytes a
            second.
        model_size: Parameters such as "9.2M" (4 bytes each) or bytes such as "37MB"; a number is
            parameters.
        step_time: What a node computes in a step, without any communication: "50ms"; a number is
            seconds.
        latency: Of a message from one process to another.
        alpha: How unequal the nodes' data are, as in a Dirichlet partition (0.1: very); None if
            they are alike.
        topologies: Specs to rank beside DDP.

    Returns:
        The choices, the best first, each with its predicted step time, bytes, rounds to the exact
        average, break-even bandwidth and what was measured of its accuracy.

    Raises:
        InvalidArgument: If a number is out of range, a unit is missing or a topology not known.

    Example:
        >>> import basegraph as bg
        >>> case = {"bandwidth": "1Gbit", "model_size": "9.2M", "step_time": "50ms", "alpha": 0.1}
        >>> best = bg.advise(25, **case).best
        >>> best.topology, best.order, round(best.step_seconds, 3), round(best.times_faster, 2)
        ('base:k=1', 'combine-then-adapt', 0.295, 2.35)
        >>> print(best.break_even)
        faster at any bandwidth

    """
    nodes = at_least(2, nodes=nodes)
    if nodes > MOST_NODES:
        raise InvalidArgument("nodes", nodes, f"must be at most {MOST_NODES}")
    if alpha is not None and not (isinstance(alpha, int | float) and alpha > 0):
        raise InvalidArgument("alpha", alpha, "must be a number above 0")
    network = Network(
        bandwidth=read_bandwidth("bandwidth", bandwidth), latency=read_seconds("latency", latency)
    )
    size = model_bytes("model_size", model_size)
    computing = read_seconds("step_time", step_time)
    if computing == 0:
        raise InvalidArgument("step_time", step_time, "must be a time above 0, such as 50ms")
    case = _Case(size, network, computing, alpha, {name: load(name, nodes) for name in ALL_REDUCES})
    choices = [case.ddp(name) for name in ALL_REDUCES]
    for names in _distinct(topologies, nodes):
        choices.append(case.gossip(names, load(names[0], nodes)))
    return Advice(
        nodes=nodes,
        model_bytes=size,
        network=network,
        step_time=computing,
        alpha=alpha,
        choices=tuple(_ranked(choices)),
    )


@dataclass(frozen=True)
class _Case:
    """What all choices have in common."""

    size: int
    network: Network
    computing: float
    alpha: float | None
    all_reduces: dict[str, Load]

    def best_ddp(self, network: Network) -> float:
        return min(
            ddp_step(form, self.size, network, self.computing) for form in self.all_reduces.values()
        )

    def ddp(self, name: str) -> Choice:
        form = self.all_reduces[name]
        spent = ddp_step(form, self.size, self.network, self.computing)
        return self._choice(name, form, "DDP", None, spent, None)

    def gossip(self, names: list[str], rounds: Load) -> Choice:
        """A topology in its faster order; in the one we have measured where both are level."""
        two = rounds.vectors_per_node == 2
        orders = (EXCHANGES_LAST,) if two else ORDERS  # what methods of two vectors have
        spent = {
            order: gossip_step(rounds, self.size, self.network, self.computing, order)
            for order in orders
        }
        order = min(spent, key=lambda o: spent[o])
        if spent[EXCHANGES_LAST] < LEVEL * spent[order]:
            order = EXCHANGES_LAST

        def seconds(network: Network) -> float:
            return gossip_step(rounds, self.size, network, self.computing, order)

        method = TWO_STATE_METHOD if two else METHOD
        return self._choice(
            names[0], rounds, method, order, spent[order], self._break_even(seconds), names[1:]
        )

    def _choice(
        self,
        name: str,
        rounds: Load,
        method: str,
        order: str | None,
        spent: float,
        break_even: BreakEven | None,
        same_as: Iterable[str] = (),
    ) -> Choice:
        cost = rounds.cost(self.size, self.network)
        measured = "all-reduce" if order is None else name
        return Choice(
            topology=name,
            method=method,
            order=order,
            step_seconds=spent,
            computing_seconds=self.computing,
            exchange_seconds=(
                ddp_exchange(rounds, self.size, self.network)
                if order is None
                else cost.seconds_per_step
            ),
            times_faster=self.best_ddp(self.network) / spent,
            bytes_per_step=cost.bytes_per_step,
            rounds_to_average=(cost.rounds if rounds.gossip else 1) if cost.exact else None,
            vectors_per_node=rounds.vectors_per_node,
            break_even=break_even,
            evidence=tuple(evidence(measured, self.alpha)),
            same_as=tuple(same_as),
        )

    def _break_even(self, seconds: Callable[[Network], float]) -> BreakEven:
        """Where a way is faster than DDP, by 2 % or more."""

        def faster(rate: float) -> bool:
            network = Network(
                bandwidth=float(rate), latency=self.network.latency, duplex=self.network.duplex
            )
            return self.best_ddp(network) >= LEVEL * seconds(network)

        mask = [faster(rate) for rate in BANDWIDTHS]
        if not any(mask):
            return BreakEven(ever=False)
        first, last = mask.index(True), len(mask) - 1 - mask[::-1].index(True)
        return BreakEven(
            ever=True,
            above=None if first == 0 else _crossing(faster, first - 1, first),
            below=None if last == len(mask) - 1 else _crossing(faster, last, last + 1),
        )


def _crossing(faster: Callable[[float], bool], left: int, right: int) -> float:
    """The bandwidth between two of `BANDWIDTHS` at which the answer changes."""
    low, high = float(BANDWIDTHS[left]), float(BANDWIDTHS[right])
    at_low = faster(low)
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if faster(middle) == at_low else (low, middle)
    return low


def _distinct(specs: Iterable[str], n: int) -> list[list[str]]:
    """The topologies that are defined for n, each with all its names."""
    names: dict[str, list[str]] = {}
    for spec in dict.fromkeys(specs):
        parse_spec(spec)
        try:
            t = topology(spec, n)
        except InvalidArgument as refusal:
            if refusal.argument not in ("n", "k"):
                raise
            continue
        if t.period is None:
            raise InvalidArgument("topologies", spec, "is random, the network model has no period")
        two = spec.partition(":")[0] in TWO_STATE_NAMES
        names.setdefault(f"{two}{digest(t)}", []).append(spec)
    return list(names.values())


def _ranked(choices: list[Choice]) -> list[Choice]:
    """By step time, those that are level by what speaks for them."""
    waiting = sorted(choices, key=lambda choice: choice.step_seconds)
    ranked: list[Choice] = []
    while waiting:
        level = [c for c in waiting if c.step_seconds < LEVEL * waiting[0].step_seconds]
        waiting = waiting[len(level) :]
        ranked += sorted(level, key=_merit)
    return ranked


def _merit(choice: Choice) -> tuple[bool, int, float, int, float, float]:
    points = choice.points
    verdict = 1 if points is None else 0 if points >= 0 else 2
    rounds = choice.rounds_to_average or np.inf
    return (
        not choice.is_ddp,
        verdict,
        -(points or 0.0),
        -len(choice.evidence),
        rounds,
        choice.step_seconds,
    )
