"""What can be saved from the interactive page: SVG, GIF and the line of Python."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

import basegraph as bg
from support.browser import needs_browser


@needs_browser
def test_saves_svg_gif_and_the_python_line(page, tmp_path):
    with page.expect_download() as saved:
        page.click("#save-svg")
    saved.value.save_as(tmp_path / "round.svg")
    assert saved.value.suggested_filename == "base-k-1-n25.svg"
    root = ElementTree.parse(tmp_path / "round.svg").getroot()
    circles = root.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 25
    assert {c.get("fill").partition("(")[0] for c in circles} == {"rgb"}
    assert "var(" not in (tmp_path / "round.svg").read_text()
    line = page.locator("#python").input_value()
    names: dict[str, object] = {}
    exec(line.partition("; t.draw")[0], names)
    assert names["t"] == bg.topology("base", n=25)


@needs_browser
def test_a_gif_shows_one_period(page, tmp_path):
    image = pytest.importorskip("PIL.Image")
    page.evaluate("state.spec = 'base:k=1'; state.n = 6; rebuild();")
    with page.expect_download() as saved:
        page.click("#save-gif")
    saved.value.save_as(tmp_path / "period.gif")
    with image.open(tmp_path / "period.gif") as gif:
        assert (gif.format, gif.n_frames, gif.info["loop"]) == ("GIF", 5, 0)
        assert gif.size == (480, 511)
        frames = []
        for frame in range(gif.n_frames):
            gif.seek(frame)
            frames.append((gif.info["duration"], gif.convert("RGB")))
    assert [duration for duration, _ in frames] == [700, 700, 700, 700, 1400]
    places = [place_of(node, 6) for node in range(6)]
    first, last = ([frame.getpixel(p) for p in places] for _, frame in (frames[0], frames[-1]))
    assert len(set(first)) > 3
    assert len(set(last)) == 1  # all nodes hold the average
    colors = page.evaluate(
        """go(0), [...document.querySelectorAll(".node")].map((node) => {
          node.style.transition = "none";
          return getComputedStyle(node).fill.match(/\\d+/g).map(Number);
        })"""
    )
    for shown, meant in zip(first, colors, strict=True):
        assert max(abs(a - b) for a, b in zip(shown, meant, strict=True)) <= 8


def place_of(node: int, n: int) -> tuple[int, int]:
    """Where a node is in a GIF of 480 pixels across, in which the circle's radius is 100 of 248."""
    angle = 2 * math.pi * node / n
    scale = 480 / 248
    return round(scale * (124 + 100 * math.sin(angle))), round(
        scale * (124 - 100 * math.cos(angle))
    )
