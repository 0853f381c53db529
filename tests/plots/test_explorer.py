"""The interactive page, in a real browser: what a reader sees and does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import basegraph as bg
from basegraph.plots.explorer import write_page
from support.browser import needs_browser, open_explorer, require_fit
from support.cli import ok, run_here


def test_a_spec_of_ones_own_cannot_end_the_script(tmp_path):
    spec = "</script><script>alert(1)</script><!-- & \u2028"
    write_page(tmp_path / "page.html", bg.Sequence(list(bg.topology("ring", n=5)), spec))
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count("<script>") == text.count("</script>") == 1
    (start,) = re.findall("const START = (.*);", text)
    assert json.loads(start)["topology"] == spec


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
    assert page.locator("#problem button").all_inner_texts() == ["n = 256"]
    page.fill("#n", "21")
    page.select_option("#name", "base")
    page.fill("#k", "3")
    page.press("#k", "Enter")
    page.check('#compared [value="torus"]')
    legend = page.locator("#legend").inner_text()
    assert re.search(r"base:k=3\s+3\s+4\s+83.1 MB, 3.33 s", legend)
    assert re.search(r"torus\s+4\s+1\s+148 MB, 5.91 s\s+never exact", legend)
    assert page.locator("#errors path.curve").count() == 4
    assert page.locator("#errors .exact").count() == 1
    assert page.url.endswith("#base:k=3/21")


@needs_browser
def test_an_n_that_is_not_there_suggests_others(page):
    page.select_option("#name", "hyper-hypercube")
    assert "no prime factor above 2" in page.locator("#problem").inner_text()
    assert page.locator("#problem button").all_inner_texts() == ["n = 16", "n = 32"]
    page.click("#problem button >> nth=1")
    assert page.locator(".node").count() == 32
    page.select_option("#name", "short")
    page.fill("#n", "77")
    page.press("#n", "Enter")
    problem = page.locator("#problem").inner_text()
    assert "basegraph explore --topology short:k=1 -n 77" in problem
    assert page.locator("#problem button").all_inner_texts() == ["n = 72", "n = 80"]


@needs_browser
def test_opens_on_what_is_packed_for_it(tab, tmp_path):
    ok("explore", "--out", tmp_path / "page.html", "--topology", "short:k=5", "-n", "77")
    with open_explorer(tab, tmp_path / "page.html") as opened:
        assert opened.locator("#problem").inner_text() == ""
        assert opened.locator(".node").count() == 77
        opened.keyboard.press("End")
        assert "exact average" in opened.locator("#status").inner_text()
        opened.goto(f"{(tmp_path / 'page.html').as_uri()}#short:k=1,home=true/25")
        opened.wait_for_function("state.spec === 'short:k=1,home=true' && current.t.n === 25")
        assert opened.is_checked("#home")


@needs_browser
@pytest.mark.parametrize("spec", ["base:k=1", "base:k=2", "short:k=2", "block-merge:k=2", "ceca"])
def test_labels_lie_neither_on_each_other_nor_on_nodes(page, spec):
    boxes = page.evaluate(
        """(spec) => [6, 7, 12, 25, 31].map((n) => {
          state.spec = spec; state.n = n; rebuild();
          return Array.from({ length: current.t.period }, (_, step) => {
            go(step);
            return [".weight", ".node"].map((name) =>
              [...document.querySelectorAll(name)].map((element) => {
                const { left, right, top, bottom } = element.getBoundingClientRect();
                return [left, right, top, bottom];
              }));
          });
        }).flat()""",
        spec,
    )
    apart = 0
    for labels, nodes in boxes:
        for i, (left, right, top, bottom) in enumerate(labels):
            for other in [*labels[:i], *nodes]:
                assert (
                    right <= other[0] or other[1] <= left or bottom <= other[2] or other[3] <= top
                )
                apart += 1
    assert apart > 100


@needs_browser
def test_many_edges_are_thinned_but_not_those_of_the_selected_node(page):
    page.evaluate("state.spec = 'complete'; state.n = 200; rebuild(); select(3);")
    assert "of them drawn, evenly chosen" in page.locator("#round").inner_text()
    arcs = page.locator(".edge.chosen").get_attribute("d")
    assert arcs.count("M") == 199
    assert page.locator(".edge").first.get_attribute("d").count("M") < 1000


@needs_browser
def test_typing_a_node_selects_it_at_once(page):
    page.locator("#node").press_sequentially("1")
    assert page.locator(".node.selected").get_attribute("data-node") == "1"
    page.locator("#node").press_sequentially("7")
    assert page.locator(".node.selected").get_attribute("data-node") == "17"
    page.locator("#node").press_sequentially("0")
    assert "from 0 to 24" in page.locator("#problem").inner_text()
    assert page.locator("#node").input_value() == "170"
    page.fill("#node", "")
    assert page.locator("#problem").inner_text() == ""


@needs_browser
def test_colors_say_how_far_from_the_average(page):
    scale = page.locator("#scale").inner_text()
    mean = page.evaluate("current.x0.reduce((a, b) => a + b) / 25")
    assert f"average of all {mean:.2f}" in scale
    page.keyboard.press("End")
    assert page.evaluate("valueColor(current.scale.mean, current.scale)") == page.locator(
        ".node"
    ).first.get_attribute("fill")


@needs_browser
def test_bytes_and_seconds_follow_the_network(page):
    page.keyboard.press("ArrowRight")
    assert "has sent 36.9 MB in 1.48 s" in page.locator("#round").inner_text()
    page.fill("#bandwidth", "10000")
    page.fill("#latency", "0")
    assert "has sent 36.9 MB in 29.5 ms" in page.locator("#round").inner_text()
    row = page.locator('#legend [data-spec="base:k=1"]').inner_text()
    assert "332 MB, 266 ms" in row


@needs_browser
@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_speed_and_reduced_motion(tab, tmp_path, motion):
    write_page(tmp_path / "page.html", bg.topology("ring", n=5))
    with open_explorer(tab, tmp_path / "page.html", motion=motion) as opened:
        still = opened.evaluate(
            "getComputedStyle(document.querySelector('.node')).transitionDuration"
        )
        assert (still == "0s") == (motion == "reduce")
        opened.evaluate("window.setInterval = (tick, ms) => { window.ms = ms; return 1; }")
        opened.click("#play")
        assert opened.evaluate("ms") == (1400 if motion == "reduce" else 700)
        opened.select_option("#speed", label="4×")
        assert opened.evaluate("ms") == 175
        assert opened.locator("#play").inner_text() == "Pause"


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_fits_a_phone_and_a_desk(tab, tmp_path, scheme, width):
    """Leaves a screenshot in pytest's temporary folder for a person to look at."""
    path = tmp_path / "page.html"
    write_page(path, bg.topology("base:k=2", n=25))
    with open_explorer(tab, path, width=width, scheme=scheme) as opened:
        opened.keyboard.press("ArrowRight")
        opened.screenshot(path=tmp_path / f"page-{scheme}-{width}.png", full_page=True)
        require_fit(opened, width, scheme)


def test_the_page_is_one_small_file(tmp_path):
    path = tmp_path / "page.html"
    assert "written to" in ok("explore", "--out", path, "--topology", "base:k=2", "-n", "30")
    text = path.read_text(encoding="utf-8")
    assert len(text) < 10**6
    assert 'src="' not in text
    for address in re.findall(r"https?://[^\"\s]+", text.replace("http://www.w3.org/2000/svg", "")):
        assert f'<a href="{address}">' in text
    assert "https://arxiv.org/abs/2305.11420" in text
    assert '"topology": "base:k=2"' in text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--out", "page.pdf"], "--out='page.pdf': must end in .html"),
        (["--out", "no/page.html"], "the folder 'no' does not exist"),
        (["--out", "page.html", "-n", "301"], "--nodes=301: the page shows at most 300 nodes"),
        (["--out", "page.html", "--topology", "rimg"], "did you mean 'ring'"),
        (["--out", "page.html", "--topology", "base:k=0"], "k=0: must be an integer ≥ 1"),
        (
            ["--out", "page.html", "--topology", "base:redundant=false"],
            "cannot show the option redundant",
        ),
        (["--out", "page.html", "--topology", "steady:home=true"], "cannot show the option home"),
        (
            ["--out", "page.html", "--topology", "one-peer-d-equidyn:eta=1/3"],
            "cannot show the option eta",
        ),
        ([], "--out"),
    ],
)
def test_explore_mistakes(arguments, complaint, tmp_path):
    done = run_here("explore", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(Path(tmp_path).iterdir()) == []
