"""What all figures share: matplotlib without a screen, one style, atomic saving."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from basegraph.storage.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "svg.hashsalt": "basegraph",
    "svg.fonttype": "none",
}


def panels(rows: int, columns: int, *, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure of rows × columns panels of this size in inches, in reading order."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(columns * width, rows * height), layout="constrained")
        axes: Any = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.flat)


def plain(value: float, _: object = None) -> str:
    """A number on an axis without powers of ten."""
    return f"{value:g}"


def plain_ticks(axis: Axis) -> None:
    """Label a logarithmic axis in plain numbers: at 1, 2, 5, 10, 20, 50 and so on."""
    axis.set_major_formatter(FuncFormatter(plain))
    axis.set_minor_formatter(FuncFormatter(_plain_if_first_digit))


def _plain_if_first_digit(value: float, _: object) -> str:
    """Labels at 2, 5, 20, 50 and so on, which is what there is room for."""
    digits = f"{value:e}"
    return plain(value) if digits[0] in "25" and float(digits.partition("e")[0]) in (2, 5) else ""


def save(figure: Figure, path: Path) -> None:
    """Write the figure in the format of the path's suffix, without a date in the file."""
    suffix = path.suffix.lower()
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
    with replacing(path) as temporary, matplotlib.rc_context(STYLE):
        figure.savefig(temporary, format=suffix[1:], dpi=150, metadata=metadata)
