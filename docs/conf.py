"""How Sphinx builds the site: `make docs`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

import basegraph

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "basegraph"
author = "the basegraph contributors"
version = release = basegraph.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "generated",
    "llms",
    "mathml",
]
exclude_patterns = ["_ext"]
suppress_warnings = ["ref.python"]  # a name in "Raises" that several packages export
default_role = (
    "py:obj"  # `name` in a docstring is code, and a link where there is something to show
)

myst_enable_extensions = ["attrs_block", "colon_fence", "dollarmath"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80
toc_object_entries = False
napoleon_numpy_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = "basegraph"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_search_summary = False  # it would be fetched, which pages from disk may not do
html_show_sphinx = html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}


def title_of_a_table(_: Sphinx, name: str, source: list[str]) -> None:
    """Give the tables that experiments have written a title, as a page must have one."""
    if name.startswith("results/") and not source[0].lstrip().startswith("#"):
        _, *folders, table = name.split("/")
        source[0] = f"# {'/'.join(folders)}: {table}\n\n{source[0]}"


def mend_docstring(
    _: Sphinx, kind: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Let |x| be an absolute value, and `name`s a plural; reStructuredText reads both otherwise."""
    text = "\n".join(lines).replace("|", r"\|")
    lines[:] = re.sub(r"(?<!`)(`[^`\n]+`)(?=\w)", r"\1\\ ", text).split("\n")
    if kind in ("attribute", "property"):
        ATTRIBUTES[name] = list(lines)


def restore_attributes(
    _: Sphinx, kind: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Undo what napoleon does to attributes: it takes the words before a colon for a type."""
    lines[:] = ATTRIBUTES.pop(name, lines)


ATTRIBUTES: dict[str, list[str]] = {}


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("source-read", title_of_a_table)
    app.connect("autodoc-process-docstring", mend_docstring, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", restore_attributes, priority=600)
