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


def new_tab(browser: Any) -> Any:
    """A tab for one file after another: much quicker than a new one for each."""
    tab = browser.new_page()
    tab.set_default_timeout(0)
    return tab


@contextmanager
def open_file(
    tab: Any,
    path: Path,
    *,
    width: int = 1200,
    scheme: str = "light",
    motion: str = "no-preference",
) -> Iterator[Any]:
    """A page of a file; any error in it, and anything that it asks for, fails the test."""
    problems: list[str] = []
    listeners = {
        "pageerror": lambda error: problems.append(str(error)),
        "console": lambda message: problems.append(message.text),
        "request": lambda request: problems.append(f"asks for {request.url}"),
    }
    tab.goto("about:blank")
    tab.set_viewport_size({"width": width, "height": 900})
    tab.emulate_media(color_scheme=scheme, reduced_motion=motion)
    tab.mouse.move(0, 0)
    for event, listener in listeners.items():
        tab.on(event, listener)
    try:
        tab.goto(path.as_uri())
        problems.remove(f"asks for {path.as_uri()}")
        yield tab
    finally:
        for event, listener in listeners.items():
            tab.remove_listener(event, listener)
    assert problems == []


@contextmanager
def open_page(tab: Any, path: Path) -> Iterator[Any]:
    """The explorer on base:k=1 with 25 nodes."""
    write_page(path, bg.topology("base", n=25))
    with open_explorer(tab, path) as opened:
        yield opened


@contextmanager
def open_explorer(tab: Any, path: Path, **options: Any) -> Iterator[Any]:
    """The explorer of a file, when it has read what is packed into it."""
    with open_file(tab, path, **options) as opened:
        opened.wait_for_selector("body[data-ready]", state="attached")
        yield opened


def require_fit(opened: Any, width: int, scheme: str) -> None:
    """The page is not wider than the window, and has the colors of the scheme."""
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    ink, paper = opened.evaluate(
        """["color", "backgroundColor"].map((property) =>
             Number(getComputedStyle(document.body)[property].match(/\\d+/)[0]))"""
    )
    assert (ink > paper) == (scheme == "dark")
