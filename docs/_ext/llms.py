"""`llms.txt`: an index of the site for language models, a line per page (llmstxt.org)."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

SUMMARY = "summary"
"""The key of a page's metadata for its first sentence."""


def write_index(app: Sphinx, error: Exception | None) -> None:
    """Write the titles and first sentences of all pages, in the order of the site."""
    if error is not None or app.builder.format != "html":
        return
    lines = [f"# {app.config.project}", "", f"> {app.env.metadata['index'][SUMMARY]}", ""]
    for section in app.env.toctree_includes["index"]:
        lines += [f"## {app.env.titles[section].astext()}", ""]
        for name in app.env.toctree_includes.get(section, []):
            title, summary = app.env.titles[name].astext(), app.env.metadata[name][SUMMARY]
            lines.append(f"- [{title}]({app.builder.get_target_uri(name)}): {summary}")
        lines.append("")
    Path(app.outdir, "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def keep_summary(app: Sphinx, page: nodes.document) -> None:
    """Keep the first sentence of a page, which is read once."""
    paragraphs = (
        paragraph.astext()
        for paragraph in page.findall(nodes.paragraph)
        if not isinstance(paragraph.parent, nodes.system_message)  # of docutils, not shown
    )
    text = " ".join(next(paragraphs, "").split())
    app.env.metadata[app.env.docname][SUMMARY] = text.partition(". ")[0].rstrip(".:") + "."


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions above."""
    app.connect("doctree-read", keep_summary)
    app.connect("build-finished", write_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
