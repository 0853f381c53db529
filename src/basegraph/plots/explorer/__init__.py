"""The interactive page: one self-contained HTML file, put together from the files beside this.

The page computes most sequences itself; the tests hold it to the library, arc for arc. Those that
need a plan or a table are computed here and packed into it (`packing.py`).
"""

from __future__ import annotations

import json
from html import escape
from importlib import metadata
from pathlib import Path

from basegraph.plots.colors import TABLE
from basegraph.plots.explorer.packing import PACKED, packed
from basegraph.plots.pages import write_html
from basegraph.topologies.core.sequence import Topology

SCRIPTS = (
    *("draws.js", "arcs.js", "euclid.js", "paper.js", "baselines.js", "packed.js", "catalogue.js"),
    *("looks.js", "gossip.js", "cost.js", "edges.js", "labels.js", "round.js", "errors.js"),
    *("gif.js", "export.js", "state.js", "panels.js", "app.js"),
)
CHOICES = (
    "base:k=1",
    "base:k=2",
    "base:k=4",
    "short:k=1",
    "short:k=2",
    "steady",
    "euclid",
    "ceca",
    "one-peer-exponential",
    "exponential",
    "ring",
    "torus",
)
MOST_SHOWN_NODES = 300
OPTIONS = {name: {"k", "home"} if name == "short" else {"k"} for name in PACKED}
"""What the page can set of topologies that are packed; of the others k, degree and seed."""
PAPER = "https://arxiv.org/abs/2305.11420"


def write_page(path: Path, start: Topology) -> None:
    """Write the interactive page, which opens on one topology compared with two others.

    Args:
        path: The file to write, which is replaced whole.
        start: The topology that it opens on; at most `MOST_SHOWN_NODES` nodes.

    """
    choice = {
        "topology": start.spec,
        "nodes": start.n,
        "compared": ["one-peer-exponential", "ring"],
        "choices": CHOICES,
    }
    values = {
        "START": choice,
        "LOOKS": json.loads(TABLE.read_text(encoding="utf-8")),
        "PACKED": packed(start.spec, start.n),
    }
    write_html(path, __name__, scripts=SCRIPTS, values=values, parts={"LINKS": _links()})


def _links() -> str:
    """The paper, and what the package's metadata name."""
    try:
        named = metadata.metadata("basegraph").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        named = []
    links = {PAPER: "Paper"} | {url: text for text, url in (line.split(", ", 1) for line in named)}
    return " · ".join(f'<a href="{escape(url)}">{escape(text)}</a>' for url, text in links.items())
