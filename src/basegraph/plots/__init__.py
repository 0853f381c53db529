"""Figures: rounds as circles of nodes, consensus curves, lengths, learning curves, costs.

Every function draws rows of numbers, or a topology, to a file in the format of its suffix (`.png`,
`.svg` or `.pdf`), which is written atomically: `draw_rounds`, `draw_consensus`, `draw_lengths`,
`draw_learning`, `draw_scaling`. They need matplotlib, which is imported when one of them is first
used: `pip install 'basegraph[plots]'`. `write_page` and `write_report` need nothing more: they
write the interactive page of `basegraph explore` (package `explorer`) and the report on runs of
`basegraph report` (package `report`).

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> import basegraph as bg
>>> from basegraph.plots import draw_rounds
>>> with TemporaryDirectory() as folder:
...     path = Path(folder) / "base-6.svg"
...     draw_rounds(bg.topology("base:k=1", n=6), path, steps=4)
...     path.read_text()[:5]
'<?xml'
"""

from typing import TYPE_CHECKING

from basegraph.lazy import lazy_names

if TYPE_CHECKING:
    from basegraph.plots.consensus import draw_consensus
    from basegraph.plots.explorer import write_page
    from basegraph.plots.learning import draw_learning
    from basegraph.plots.lengths import draw_lengths
    from basegraph.plots.report import write_report
    from basegraph.plots.rounds import draw_rounds
    from basegraph.plots.scaling import draw_scaling
else:
    _HOMES = {
        "draw_consensus": "basegraph.plots.consensus",
        "write_page": "basegraph.plots.explorer",
        "write_report": "basegraph.plots.report",
        "draw_learning": "basegraph.plots.learning",
        "draw_lengths": "basegraph.plots.lengths",
        "draw_rounds": "basegraph.plots.rounds",
        "draw_scaling": "basegraph.plots.scaling",
    }
    _NEEDS = dict.fromkeys(_HOMES.keys() - {"write_page", "write_report"}, "matplotlib")
    __getattr__, __dir__ = lazy_names(__name__, _HOMES, _NEEDS)

__all__ = [
    "draw_consensus",
    "draw_learning",
    "draw_lengths",
    "draw_rounds",
    "draw_scaling",
    "write_page",
    "write_report",
]
