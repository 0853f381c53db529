"""`basegraph explore`: a page that shows a topology at work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from basegraph.cli.arguments import Force, whole_number
from basegraph.errors import InvalidArgument
from basegraph.plots.explorer import MOST_SHOWN_NODES, OPTIONS, write_page
from basegraph.storage.files import writable
from basegraph.topologies.catalog import parse_spec
from basegraph.topologies.catalog import topology as build


def explore(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="the .html file to write")],
    topology: Annotated[
        str, typer.Option(metavar="SPEC", help="initial topology: base:k=2")
    ] = "base:k=1",
    nodes: Annotated[
        str, typer.Option("--nodes", "-n", metavar="N", help="number of nodes")
    ] = "25",
    force: Force = False,
) -> None:
    """Write an interactive HTML page: rounds, converging values, curves; works offline.

    Example: basegraph explore --out page.html --topology base:k=1 --nodes 25
    """
    n = whole_number("--nodes", nodes)
    if n > MOST_SHOWN_NODES:
        raise InvalidArgument("--nodes", n, f"the page shows at most {MOST_SHOWN_NODES} nodes")
    start = build(topology, n)
    known = OPTIONS.get(start.name, {"k", "degree", "seed"})
    beyond = parse_spec(start.spec)[1].keys() - known
    if beyond:
        raise InvalidArgument(
            "--topology", topology, f"the page cannot show the option {min(beyond)}"
        )
    path = writable("--out", out, suffixes=(".html",), force=force)
    write_page(path, start)
    print(f"written to {path} ({path.stat().st_size // 1024} KiB); open it in a browser")
