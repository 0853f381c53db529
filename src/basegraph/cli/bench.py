"""`basegraph bench`: what communication costs."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from basegraph.cli.arguments import Force, check_picture, items, whole_number, whole_numbers
from basegraph.cli.output import as_json, progress, table
from basegraph.errors import InvalidArgument
from basegraph.experiments import VGG_11_PARAMETERS
from basegraph.experiments.scaling import ALL_REDUCES, Network, rows, thinned
from basegraph.experiments.store import write_csv
from basegraph.storage.files import writable
from basegraph.topologies.catalog import parse_specs
from basegraph.topologies.two_states.sequence import TWO_VECTORS
from basegraph.units import bandwidth as read_bandwidth
from basegraph.units import bytes_text, rate_text, seconds_text
from basegraph.units import seconds as read_seconds

MOST_SIZES = 64
SPECS = (
    "base:k=1", "base:k=2", "short:k=1", "one-peer-exponential", "exponential", "ring", *ALL_REDUCES
)  # fmt: skip

app = typer.Typer(help="What communication costs.", no_args_is_help=False)


@app.callback()
def bench() -> None:
    """What communication costs."""


@app.command()
def model(
    nodes: Annotated[
        str,
        typer.Option(
            "--nodes",
            "-n",
            metavar="N",
            help=f"such as 8,64,1000 or 2:4096; beyond {MOST_SIZES} sizes, so many of them",
        ),
    ] = "8,25,64,256,1000,4096",
    parameters: Annotated[
        str | None,
        typer.Option(
            metavar="COUNT", help=f"of the model, 4 bytes each ({VGG_11_PARAMETERS}, VGG-11)"
        ),
    ] = None,
    size: Annotated[
        str | None, typer.Option("--bytes", metavar="BYTES", help="of the model, instead")
    ] = None,
    bandwidth: Annotated[
        str, typer.Option(metavar="RATE", help="of a node's link: 200Mbit, 10Gbit, 25MB (a second)")
    ] = "200Mbit",
    latency: Annotated[
        str, typer.Option(metavar="TIME", help="of a message: 5ms, 50us, 0")
    ] = "5ms",
    half_duplex: Annotated[
        bool, typer.Option("--half-duplex", help="sending and receiving share a link's bandwidth")
    ] = False,
    topologies: Annotated[
        str,
        typer.Option(metavar="SPECS", help="catalogue specs, all-reduce and all-reduce-halving"),
    ] = ",".join(SPECS),
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="draw to this .png, .svg or .pdf")
    ] = None,
    csv_path: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="write the table to this .csv")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    force: Force = False,
) -> None:
    """Model the cost of a step, and of the exact average, against the number of nodes.

    Every node has one link to a switch; a round takes latency + messages · bytes / bandwidth, where
    messages is the most any node sends or hears in it; nodes do nothing but communicate.

    Example: basegraph bench model --nodes 2:4096 --bandwidth 200Mbit --latency 5ms --plot cost.png

    `basegraph advise` uses the same model to say what to take for one number of nodes.
    """
    names = _names(topologies)
    sizes = thinned(whole_numbers("--nodes", nodes, low=2), MOST_SIZES)
    if parameters is not None and size is not None:
        raise InvalidArgument("--bytes", size, "say either --parameters or --bytes")
    if size is not None:
        weight = whole_number("--bytes", size)
    else:
        given = str(VGG_11_PARAMETERS) if parameters is None else parameters
        weight = 4 * whole_number("--parameters", given)
    network = Network(
        bandwidth=read_bandwidth("--bandwidth", bandwidth),
        latency=read_seconds("--latency", latency),
        duplex=not half_duplex,
    )
    check_picture("--plot", plot, force=force)
    if csv_path is not None:
        writable("--csv", csv_path, suffixes=(".csv",), force=force)
    costs = []
    for n in progress(sizes, "numbers of nodes"):
        costs += rows(names, n, weight, network)
    for name in names:
        if not any(row["topology"] == name for row in costs):
            raise InvalidArgument("--topologies", name, f"is not defined for --nodes {nodes}")
    title = (
        f"model: {'VGG-11, ' if parameters is size is None else ''}{bytes_text(weight)}, "
        f"links of {rate_text(network.bandwidth)}, {'half' if half_duplex else 'full'} duplex, "
        f"latency {seconds_text(network.latency)}"
    )
    if plot is not None:
        from basegraph.plots.scaling import draw_scaling

        draw_scaling(costs, names, plot, title)
    if csv_path is not None:
        write_csv(csv_path, costs)
    if json:
        as_json(costs)
        return
    table(
        ["n", "topology", "rounds", "MB per step", "s per step", "MB to average", "s to average"],
        [_line(row) for row in costs],
        title=title,
    )
    for path in (plot, csv_path):
        if path is not None:
            print(f"written to {path}")


def _names(text: str) -> list[str]:
    """Specs and forms of all-reduce, as they were written."""
    names: list[str] = []
    for reduces, run in groupby(items(text), key=lambda item: item in ALL_REDUCES):
        some = list(run)
        names += some if reduces else parse_specs("--topologies", ",".join(some))
    return list(dict.fromkeys(names))


def _line(row: dict[str, Any]) -> list[object]:
    def mega(value: float | None) -> str:
        return "–" if value is None else f"{value / 1e6:.4g}"

    def short(value: float | None) -> str:
        return "–" if value is None else f"{value:.3g}"

    return [
        row["n"],
        row["topology"] if row["vectors_per_node"] == 1 else f"{row['topology']} ({TWO_VECTORS})",
        row["rounds"],
        mega(row["bytes_per_step"]),
        short(row["seconds_per_step"]),
        mega(row["bytes_to_average"]),
        short(row["seconds_to_average"]),
    ]
