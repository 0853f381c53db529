"""Equations as MathML, which browsers draw themselves: no script, no fonts, no network."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

SHORT_FRACTION = re.compile(r"\\([td]?frac)\s*(\d)\s*([\da-zA-Z])")
r"""\frac12, which docutils would read as 12 over what follows."""

logger = logging.getLogger(__name__)


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write an equation that stands in a sentence."""
    self.body.append(mathml(node, block=False))
    raise nodes.SkipNode


def display(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write an equation that stands by itself."""
    self.body.append(f'<div class="equation">{mathml(node, block=True)}</div>\n')
    raise nodes.SkipNode


def mathml(node: nodes.math | nodes.math_block, *, block: bool) -> str:
    """Convert the LaTeX of a node; what docutils does not know is a warning."""
    latex = SHORT_FRACTION.sub(r"\\\1{\2}{\3}", node.astext().replace(r"\dots", r"\ldots"))
    try:
        return tex2mathml(latex, as_block=block)
    except MathError as error:
        logger.warning("equation %r: %s", latex, error, location=node)
        return ""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer that `html_math_renderer = "mathml"` chooses."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
