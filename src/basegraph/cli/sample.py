"""`basegraph sample`: text from a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from basegraph.cli.arguments import number, whole_number
from basegraph.cli.output import as_json


def sample(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a run on text")],
    prompt: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="start of the text; default: a new line"),
    ] = None,
    tokens: Annotated[str, typer.Option(metavar="INT", help="tokens to generate")] = "200",
    temperature: Annotated[
        str, typer.Option(metavar="X", help="0: always the likeliest token; 1: as predicted")
    ] = "0.8",
    seed: Annotated[str, typer.Option(metavar="S", help="seed of the sampling")] = "0",
    node: Annotated[
        int | None,
        typer.Option(metavar="INT", help="use this node's model instead of the average"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Generate text with the averaged model of a run.

    Example: basegraph sample runs/text --prompt "To be" --tokens 200 --temperature 0.8
    """
    count = whole_number("--tokens", tokens)
    drawn_from = whole_number("--seed", seed, low=0)
    heat = number("--temperature", temperature)
    from basegraph.training._sample import sample as sampled

    written = sampled(
        run, prompt=prompt, tokens=count, temperature=heat, seed=drawn_from, node=node
    )
    if json:
        whose = "averaged model" if node is None else f"model of node {node}"
        options = {"temperature": heat, "seed": drawn_from}
        as_json({"model": whose, **options, **written._asdict()})
        return
    print(f"{written.prompt}{written.text}")
