"""A browser that opens the interactive page; tests without one are skipped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import basegraph as bg
from basegraph.plots.explorer import write_page

CHROMIUM = shutil.which("chromium")
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="NO CHROMIUM: the page is not tested; install Debian's chromium"
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def open_page(browser: Any, path: Path) -> Iterator[Any]:
    """The page on base:k=1 with 25 nodes; any error in it fails the test."""
    write_page(path, bg.topology("base", n=25))
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    opened.set_default_timeout(0)
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda message: problems.append(message.text))
    opened.on("request", lambda request: problems.append(f"asks for {request.url}"))
    opened.goto(path.as_uri())
    problems.remove(f"asks for {path.as_uri()}")
    yield opened
    opened.close()
    assert problems == []
