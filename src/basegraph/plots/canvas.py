"""What all figures share: matplotlib without a screen, one style, atomic saving."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.figure import Figure

from basegraph.storage.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "svg.hashsalt": "basegraph",
    "svg.fonttype": "none",
}
COLORS = ("#0b6e99", "#d1495b", "#2e8b57", "#edae49", "#6a4c93", "#8d99ae", "#33312e", "#e07a5f")


def panels(rows: int, columns: int, *, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure of rows × columns panels of this size in inches, in reading order."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(columns * width, rows * height), layout="constrained")
        axes: Any = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.flat)


def save(figure: Figure, path: Path) -> None:
    """Write the figure in the format of the path's suffix, without a date in the file."""
    suffix = path.suffix.lower()
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
    with replacing(path) as temporary, matplotlib.rc_context(STYLE):
        figure.savefig(temporary, format=suffix[1:], dpi=150, metadata=metadata)
