"""`basegraph data`: what datasets are here, and whether they are intact."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from basegraph.cli.output import as_json, table
from basegraph.data.catalog import data_folder
from basegraph.data.catalog import download as fetch
from basegraph.data.published import DATASETS, check, missing, present
from basegraph.extras import MissingExtra, is_installed

app = typer.Typer(help="Check or fetch datasets.", rich_markup_mode=None)
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="FOLDER", help="default: $BASEGRAPH_DATA or ./data"),
]


@app.command(name="check")
def check_data(
    data_dir: DataDir = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Check which datasets are present and intact, and say where the others go.

    Example: basegraph data check --data-dir data
    """
    rows = [("digits", "ready", "comes with scikit-learn; needs no file")]
    if not is_installed("sklearn"):
        rows = [("digits", "missing", str(MissingExtra("sklearn")))]
    rows.append(("text", "ready", "comes with basegraph; needs no file"))
    broken = False
    for entry in DATASETS.values():
        folder = data_folder(data_dir) / entry.name
        files = present(entry, folder)
        if files is None:
            rows.append((entry.name, "missing", missing(entry, folder).partition(": ")[2]))
            continue
        problems = [problem for file in files if (problem := check(folder / file.name, file))]
        broken = broken or bool(problems)
        rows.append(
            (entry.name, "broken" if problems else "ready", "; ".join(problems) or str(folder))
        )
    if json:
        as_json(
            [{"dataset": name, "status": status, "detail": text} for name, status, text in rows]
        )
    else:
        table(["dataset", "status", "detail"], rows)
    if broken:
        raise typer.Exit(1)


@app.command()
def download(
    name: Annotated[str, typer.Argument(metavar="NAME", help="such as mnist")],
    data_dir: DataDir = None,
) -> None:
    """Fetch a dataset from where its authors publish it, and check it. Needs the network.

    Example: basegraph data download fashion-mnist --data-dir data
    """
    fetched = fetch(name, data_dir)
    for path in fetched:
        print(f"fetched {path}")
    if not fetched:
        print(f"{name} is complete already")
