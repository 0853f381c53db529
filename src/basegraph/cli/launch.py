"""`basegraph launch`: nodes that join and leave, on this machine."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from basegraph.cli.arguments import number, whole_number
from basegraph.errors import InvalidArgument
from basegraph.extras import require


def launch(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="what every node runs")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="the script's own arguments")
    ] = None,
    nodes: Annotated[
        str | None, typer.Option("--nodes", "-n", metavar="N", help="number of nodes")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace/--no-replace", help="start a new node when one dies")
    ] = True,
    module: Annotated[
        bool, typer.Option("--module", "-m", help="SCRIPT is a module, as for python -m")
    ] = False,
    heartbeat_timeout: Annotated[
        str, typer.Option(metavar="S", help="seconds without a heartbeat before a node is dead")
    ] = "5",
) -> int:
    """Start a lighthouse and the nodes of a script on this machine, and replace nodes that die.

    The script has an optimizer with membership="live". Its nodes go on when one of them dies. So do
    those of `basegraph train`.

    Example: basegraph launch --nodes 8 train.py --epochs 10

    Example: basegraph launch --nodes 5 -m basegraph train --engine distributed --out runs/live
    """
    require("torch")
    count = whole_number("--nodes", nodes)
    limit = number("--heartbeat-timeout", heartbeat_timeout)
    if not module and not Path(script).is_file():
        raise InvalidArgument("SCRIPT", script, "there is no such file")
    words = arguments or []
    if module and script == "basegraph" and not _trains_distributed(words):
        raise InvalidArgument(
            "ARGS",
            " ".join(words),
            "must be train --engine distributed: other commands would run in full on every node",
        )
    from basegraph.engines.distributed.launcher import Launcher

    command = [*(["-m"] if module else []), script, *words]

    def say(line: str) -> None:
        print(f"basegraph: {line}", file=sys.stderr, flush=True)

    return Launcher(command, count, replace=replace, heartbeat_timeout=limit, say=say).run()


def _trains_distributed(words: list[str]) -> bool:
    """Whether these are the arguments of a run with one node per process."""
    engine = "--engine=distributed" in words or ("--engine", "distributed") in pairwise(words)
    return words[:1] == ["train"] and engine
