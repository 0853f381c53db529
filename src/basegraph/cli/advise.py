"""`basegraph advise`: which topology, method and order to take."""

from __future__ import annotations

from typing import Annotated

import typer

from basegraph.cli.arguments import number, whole_number
from basegraph.cli.output import as_json, table
from basegraph.experiments._advise import MOST_NODES, Advice
from basegraph.experiments._advise import advise as rank
from basegraph.experiments.advice_options import ALL_REDUCE_FORMS, TOPOLOGIES
from basegraph.experiments.choice import Choice
from basegraph.topologies.catalog import parse_specs
from basegraph.units import seconds_text

ASSUMPTIONS = (
    "Predicted by the model of `basegraph bench model`: DDP all-reduces 25 MiB at a time while the "
    "backward pass runs, combine-then-adapt exchanges beside the whole step, adapt-then-combine "
    "after it. A step of gossip need not learn as much as one of DDP.",
    "Accuracy: final, against base:k=1 within seeds, 25 nodes, dsgdm, adapt-then-combine; "
    "combine-then-adapt was not measured. --json has the settings and sources.",
)


def advise(
    nodes: Annotated[str, typer.Option("--nodes", "-n", metavar="N", help="number of nodes")],
    bandwidth: Annotated[
        str, typer.Option(metavar="RATE", help="of a node's link: 200Mbit, 10Gbit, 25MB (a second)")
    ],
    model_size: Annotated[
        str, typer.Option(metavar="SIZE", help="parameters (9.2M, 4 bytes each) or bytes (37MB)")
    ],
    step_time: Annotated[
        str, typer.Option(metavar="TIME", help="what a node computes in a step: 50ms, 1.2s")
    ],
    latency: Annotated[
        str, typer.Option(metavar="TIME", help="of a message between processes: 1ms, 50us, 0")
    ] = "1ms",
    alpha: Annotated[
        str | None,
        typer.Option(
            metavar="ALPHA",
            help="how unequal the nodes' data are, as in a Dirichlet split (0.1: very); without "
            "it, alike",
        ),
    ] = None,
    topologies: Annotated[
        str, typer.Option(metavar="SPECS", help="what to rank beside DDP, by commas")
    ] = ",".join(TOPOLOGIES),
    json: Annotated[
        bool, typer.Option("--json", help="print JSON, with all that was measured")
    ] = False,
) -> None:
    """Rank topologies, orders and DDP by predicted step time, with what we know of accuracy.

    Example: basegraph advise --nodes 25 --bandwidth 1Gbit --latency 1ms --model-size 9.2M
    --step-time 50ms --alpha 0.1
    """
    advice = rank(
        whole_number("--nodes", nodes, low=2, high=MOST_NODES + 1),
        bandwidth=bandwidth,
        latency=latency,
        model_size=model_size,
        step_time=step_time,
        alpha=None if alpha is None else number("--alpha", alpha),
        topologies=parse_specs("--topologies", topologies),
    )
    if json:
        as_json(advice.rows())
        return
    table(
        ["", "topology", "method", "order", "step", "vs DDP", "MB a step",
         "rounds to average", "break-even with DDP", "accuracy in our runs"],
        [_line(place, choice) for place, choice in enumerate(advice.choices, start=1)],
        title=advice.situation,
    )  # fmt: skip
    print()
    for place, choice in enumerate(advice.choices, start=1):
        print(f"{place}. {_name(choice)}: {choice.reason}")
    print()
    for line in (_verdict(advice), *ASSUMPTIONS):
        print(line)


def _line(place: int, choice: Choice) -> list[object]:
    return [
        place,
        _name(choice),
        choice.method,
        choice.order or "–",
        seconds_text(choice.step_seconds),
        f"{choice.times_faster:.2f}x",
        f"{choice.bytes_per_step / 1e6:.4g}",
        choice.rounds_to_average or "–",
        choice.break_even or "–",
        choice.accuracy,
    ]


def _name(choice: Choice) -> str:
    if choice.is_ddp:
        return f"all-reduce ({ALL_REDUCE_FORMS[choice.topology]})"
    return " = ".join((choice.topology, *choice.same_as))


def _verdict(advice: Advice) -> str:
    """What to take, in a line or two."""
    best = advice.best
    if best.is_ddp:
        return "Take DDP: nothing is faster by 2 %, and its accuracy is not in doubt."
    said = (
        f"Take {best.topology}, {best.order}: a step is {best.times_faster:.2f} times as fast "
        f"as DDP's; break-even with DDP: {best.break_even}."
    )
    if best.step_seconds > 1.5 * advice.step_time:
        count = -int(-best.exchange_seconds // advice.step_time)
        said += (
            f" The network still sets the pace: local_steps={count} would hide it (accuracy not "
            "measured)."
        )
    return said
