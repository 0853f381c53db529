"""`basegraph verify`: prove exact consensus for many (n, k)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from basegraph.cli.arguments import (
    build,
    complete_topology,
    degree_option,
    whole_number,
    whole_numbers,
)
from basegraph.cli.output import as_json, progress
from basegraph.errors import InvalidArgument, InvalidRound, NotFiniteTime
from basegraph.topologies.catalog import parse_spec
from basegraph.topologies.two_states.sequence import TWO_VECTORS
from basegraph.topologies.verify.certificate import Certificate
from basegraph.topologies.verify.certificate import verify as prove


def verify(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="a catalogue name, with options: base:k=2",
            autocompletion=complete_topology,
        ),
    ],
    nodes: Annotated[
        str, typer.Option("--nodes", "-n", metavar="N", help="such as 25, 1:300 or 4,8,16")
    ],
    degree: Annotated[
        str | None,
        typer.Option("--degree", "-k", metavar="K", help="neighbors per round: such as 1 or 1:9"),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="HOW", help="auto (by size), exact, or freivalds (random, modulo primes)"
        ),
    ] = "auto",
    seed: Annotated[
        str | None, typer.Option(metavar="S", help="of the random check; default: a fresh one")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Prove, without floating point, that one period brings every node to the exact average.

    Example: basegraph verify base --nodes 1:300 --degree 1:9

    Exit code 1 if any of them fails.
    """
    seed_value = None if seed is None else whole_number("--seed", seed, low=0)
    name, written = parse_spec(spec)
    degrees: list[int | None] = [None]
    if degree is not None:
        degrees = list(whole_numbers("--degree", degree))
    elif degree_option(name) not in (None, *written):
        degrees = [1]
    cases = [(n, k) for k in degrees for n in whole_numbers("--nodes", nodes)]
    outcome = _prove_all(spec, cases, method, seed_value)
    if len(outcome.undefined) == len(cases):
        raise outcome.undefined[0]
    if json:
        as_json(outcome.as_dict(spec))
    else:
        for line in outcome.lines():
            print(line)
    if outcome.failed:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Outcome:
    proved: list[Certificate]
    failed: list[dict[str, object]]
    undefined: list[InvalidArgument]
    """Refusals of numbers of nodes for which the topology does not exist."""

    def as_dict(self, spec: str) -> dict[str, object]:
        proved = [{**vars(c), "error_probability": float(c.error_probability)} for c in self.proved]
        undefined = len(self.undefined)
        return {"spec": spec, "proved": proved, "failed": self.failed, "not_defined": undefined}

    def lines(self) -> Iterator[str]:
        for case in self.failed:
            k = f" k={case['degree']}" if case["degree"] else ""
            yield f"FAILED n={case['n']}{k}: {case['violation']}"
        if len(self.proved) == 1 and not self.failed:
            yield f"proved: {self.proved[0]}"
        else:
            yield _summary(self.proved, len(self.failed), len(self.undefined))


def _prove_all(
    spec: str, cases: list[tuple[int, int | None]], method: str, seed: int | None
) -> _Outcome:
    outcome = _Outcome([], [], [])
    for n, k in progress(cases, f"verify {spec}"):
        try:
            t = build(spec, n, degree=k)
            if t.period is None:
                raise InvalidArgument("NAME", spec, "is random and has no period to prove")
            outcome.proved.append(prove(t, method=method, seed=seed))
        except InvalidArgument as refusal:
            if refusal.argument != "n":
                raise
            outcome.undefined.append(refusal)
        except (InvalidRound, NotFiniteTime) as failure:
            outcome.failed.append({"n": n, "degree": k, "violation": str(failure)})
    return outcome


def _summary(proved: list[Certificate], failed: int, undefined: int) -> str:
    exact = sum(c.method == "exact" for c in proved)
    parts = [f"{len(proved)} proved ({exact} exactly, {len(proved) - exact} by Freivalds' check)"]
    if proved:
        parts.append(f"longest {max(c.period for c in proved)} rounds")
        parts.append(f"largest degree {max(c.max_degree for c in proved)}")
        if max(c.vectors_per_node for c in proved) == 2:
            parts.append(TWO_VECTORS)
    parts.append(f"{failed} failed")
    if undefined:
        parts.append(f"{undefined} undefined for this n")
    return ", ".join(parts)
