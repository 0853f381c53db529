"""`llms.txt`: an index of the site for language models, a line per page (llmstxt.org)."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx


def write_index(app: Sphinx, error: Exception | None) -> None:
    """Write the titles and first sentences of all pages, in the order of the site."""
    if error is not None or app.builder.format != "html":
        return
    lines = [f"# {app.config.project}", "", f"> {summary(app, 'index')}", ""]
    for section in app.env.toctree_includes["index"]:
        lines += [f"## {app.env.titles[section].astext()}", ""]
        for name in app.env.toctree_includes.get(section, []):
            title = app.env.titles[name].astext()
            lines.append(f"- [{title}]({app.builder.get_target_uri(name)}): {summary(app, name)}")
        lines.append("")
    Path(app.outdir, "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def summary(app: Sphinx, name: str) -> str:
    """The first sentence of a page."""
    paragraphs = app.env.get_doctree(name).findall(nodes.paragraph)
    text = " ".join(next(iter(paragraphs), nodes.paragraph()).astext().split())
    return text.partition(". ")[0].rstrip(".:") + "."


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the function above."""
    app.connect("build-finished", write_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
