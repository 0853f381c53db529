"""`basegraph export`: a trained model for torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from basegraph.cli.arguments import Force
from basegraph.cli.output import as_json
from basegraph.storage.files import replacing, writable


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the run's folder")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="the model, a .safetensors file")
    ],
    node: Annotated[
        int | None,
        typer.Option(metavar="INT", help="export this node's model, not the average of all"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    force: Force = False,
) -> None:
    """Export the averaged model of a run, or one node's, as a state_dict in safetensors.

    In Python: module.load_state_dict(safetensors.torch.load_file(FILE)).

    Example: basegraph export runs/demo --out model.safetensors
    """
    writable("--out", out, suffixes=(".safetensors",), force=force)
    from safetensors.torch import save_file

    from basegraph.training._export import export as exported

    model = exported(run, node=node)
    with replacing(out) as temporary:
        save_file({name: part.contiguous() for name, part in model.items()}, temporary)
    numbers = sum(part.numel() for part in model.values())
    whose = "averaged model" if node is None else f"model of node {node}"
    if json:
        shapes = {name: list(part.shape) for name, part in model.items()}
        as_json({"model": whose, "file": str(out), "parameters": shapes})
        return
    print(f"{whose}: {len(model)} tensors, {numbers} numbers, in {out}")
