"""The interactive page: one self-contained HTML file, put together from the files beside this.

The page computes every sequence itself; the tests hold it to the library, arc for arc. It has no
copy of the constructions in `LEFT_OUT`, which need a plan or a table.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from basegraph.storage.files import replacing
from basegraph.topologies.core.sequence import Topology

SCRIPTS = ("draws.js", "euclid.js", "topologies.js", "gossip.js", "draw.js", "app.js")
CHOICES = (
    "base:k=1",
    "base:k=2",
    "base:k=4",
    "euclid",
    "one-peer-exponential",
    "exponential",
    "ring",
    "torus",
    "ceca",
)
MOST_SHOWN_NODES = 300
LEFT_OUT = ("short", "steady", "block-mix", "block-merge")
"""Topologies of the catalogue that the page cannot show."""


def write_page(path: Path, start: Topology) -> None:
    """Write the interactive page, which opens on one topology compared with two others.

    Args:
        path: The file to write, which is replaced whole.
        start: The topology that it opens on; none of `LEFT_OUT`, at most `MOST_SHOWN_NODES` nodes.

    """
    choice = {
        "topology": start.spec,
        "nodes": start.n,
        "compared": ["one-peer-exponential", "ring"],
        "choices": CHOICES,
    }
    folder = files(__package__)
    scripts = [f"const START = {_literal(choice)};"]
    scripts += [(folder / name).read_text(encoding="utf-8") for name in SCRIPTS]
    page = (folder / "page.html").read_text(encoding="utf-8")
    page = page.replace("/* STYLE */", (folder / "style.css").read_text(encoding="utf-8"))
    page = page.replace("/* SCRIPT */", "\n".join(scripts))
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _literal(value: object) -> str:
    """A value in a script inside of HTML: nothing in it can end the script."""
    text = json.dumps(value)
    for sign in "<>&":  # which JSON has within strings only
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
