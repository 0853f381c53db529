"""The interactive page, in a real browser: what a reader sees and does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import basegraph as bg
from basegraph.plots.explorer import LEFT_OUT, write_page
from support.browser import needs_browser, open_file, require_fit
from support.cli import ok, run_here


def test_a_spec_of_ones_own_cannot_end_the_script(tmp_path):
    spec = "</script><script>alert(1)</script><!-- & \u2028"
    write_page(tmp_path / "page.html", bg.Sequence(list(bg.topology("ring", n=5)), spec))
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count("<script>") == text.count("</script>") == 1
    (start,) = re.findall("const START = (.*);", text)
    assert json.loads(start)["topology"] == spec


@pytest.mark.parametrize("name", LEFT_OUT)
def test_refuses_what_it_cannot_show(tmp_path, name):
    done = run_here("explore", "--out", "page.html", "--topology", name, "-n", "12", cwd=tmp_path)
    assert done.returncode == 2
    assert f"--topology='{name}': the page cannot show {name}" in done.stderr
    assert not (tmp_path / "page.html").exists()


@needs_browser
@pytest.mark.parametrize(("spec", "n"), [("base:k=1", 300), ("base:k=2", 299), ("complete", 300)])
def test_large_ones_are_shown(page, spec, n):
    page.evaluate("([spec, n]) => { state.spec = spec; state.n = n; rebuild(); }", [spec, n])
    assert page.locator(".node").count() == n


@needs_browser
def test_stepping_reaches_the_exact_average(page):
    status = page.locator("#status")
    assert "After 0 rounds" in status.inner_text()
    for _ in range(8):
        page.click("#forward")
    assert "exact average" not in status.inner_text()
    page.click("#forward")
    assert "After 9 rounds" in status.inner_text()
    assert "exact average" in status.inner_text()
    colors = {node.get_attribute("fill") for node in page.locator(".node").all()}
    assert len(colors) == 1
    page.click("#back")
    assert "After 8 rounds" in status.inner_text()


@needs_browser
def test_a_node_tells_whom_it_hears(page):
    page.click('[data-node="24"]')
    table = page.locator("#rounds").inner_text()
    assert "node 24 hears" in table
    t = bg.topology("base", n=25)
    rows = page.locator("#rounds tr").all()[1:]
    assert len(rows) == t.period
    for step, row in enumerate(rows):
        heard = [f"{j} ({w})" for j, w in t.neighbors(24, step).items()]
        assert row.locator("td").all_inner_texts() == [str(step), ", ".join(heard) or "nobody"]
    page.click('[data-node="24"]')
    assert page.locator("#rounds").inner_text().strip() == ""


@needs_browser
def test_the_keyboard_is_enough(page):
    page.keyboard.press("End")
    assert "After 9 rounds" in page.locator("#status").inner_text()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert page.locator(".node.selected").get_attribute("data-node") == "1"
    page.keyboard.press("Escape")
    assert page.locator(".node.selected").count() == 0
    page.keyboard.press("Home")
    page.evaluate("window.setInterval = (tick) => { window.tick = tick; return 1; }")
    page.keyboard.press("Space")
    assert page.locator("#play").inner_text() == "Pause"
    page.evaluate("tick(); tick();")
    assert "After 2 rounds" in page.locator("#status").inner_text()
    page.keyboard.press("Space")
    assert page.locator("#play").inner_text() == "Play"


@needs_browser
def test_choosing_and_comparing(page):
    page.select_option("#name", "one-peer-hypercube")
    assert "n must be a power of two" in page.locator("#problem").inner_text()
    page.fill("#n", "16")
    page.press("#n", "Enter")
    assert page.locator("#problem").inner_text() == ""
    assert page.locator(".node").count() == 16
    page.fill("#n", "1000")
    page.press("#n", "Enter")
    assert "from 1 to 300" in page.locator("#problem").inner_text()
    page.fill("#n", "21")
    page.select_option("#name", "base")
    page.fill("#k", "3")
    page.press("#k", "Enter")
    page.check('#compared [value="torus"]')
    legend = page.locator("#legend").inner_text()
    assert "base:k=3 (3)" in legend
    assert "torus (4)" in legend
    assert page.locator(".curve").count() == 4
    assert page.locator("#errors .exact").count() == 1
    assert page.url.endswith("#base:k=3/21")


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_fits_a_phone_and_a_desk(browser, tmp_path, scheme, width):
    """Leaves a screenshot in pytest's temporary folder for a person to look at."""
    path = tmp_path / "page.html"
    write_page(path, bg.topology("base:k=2", n=25))
    with open_file(browser, path, width=width, scheme=scheme) as opened:
        opened.keyboard.press("ArrowRight")
        opened.screenshot(path=tmp_path / f"page-{scheme}-{width}.png", full_page=True)
        require_fit(opened, width, scheme)


def test_the_page_is_one_small_file(tmp_path):
    path = tmp_path / "page.html"
    assert "written to" in ok("explore", "--out", path, "--topology", "base:k=2", "-n", "30")
    text = path.read_text(encoding="utf-8")
    assert len(text) < 10**6
    assert 'src="' not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert '"topology": "base:k=2"' in text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--out", "page.pdf"], "--out='page.pdf': must end in .html"),
        (["--out", "no/page.html"], "the folder 'no' does not exist"),
        (["--out", "page.html", "-n", "301"], "--nodes=301: the page shows at most 300 nodes"),
        (["--out", "page.html", "--topology", "rimg"], "did you mean 'ring'"),
        (["--out", "page.html", "--topology", "base:k=0"], "k=0: must be an integer ≥ 1"),
        (["--out", "page.html", "--topology", "base:redundant=false"], "has no option redundant"),
        (["--out", "page.html", "--topology", "one-peer-d-equidyn:eta=1/3"], "has no option eta"),
        ([], "--out"),
    ],
)
def test_explore_mistakes(arguments, complaint, tmp_path):
    done = run_here("explore", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(Path(tmp_path).iterdir()) == []
