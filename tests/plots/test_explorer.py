"""The interactive page, in a real browser: same sequences as the library, and usable."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

import basegraph as bg
from basegraph.plots.explorer import LEFT_OUT, write_page
from basegraph.topologies.short._euclid import factors as library_factors
from basegraph.topologies.short._euclid import mirrors as library_mirrors
from support.cli import ok, run_here

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


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=0)
        yield chromium
        chromium.close()


@contextmanager
def open_page(browser, path):
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


@pytest.fixture
def page(browser, tmp_path):
    """A page of this test alone, to be clicked on."""
    with open_page(browser, tmp_path / "page.html") as opened:
        yield opened


@pytest.fixture(scope="module")
def functions(browser, tmp_path_factory):
    """The page whose functions are called, and which is never changed."""
    with open_page(browser, tmp_path_factory.mktemp("explorer") / "page.html") as opened:
        yield opened


def test_a_spec_of_ones_own_cannot_end_the_script(tmp_path):
    spec = "</script><script>alert(1)</script><!-- & \u2028"
    write_page(tmp_path / "page.html", bg.Sequence(list(bg.topology("ring", n=5)), spec))
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count("<script>") == text.count("</script>") == 1
    (start,) = re.findall("const START = (.*);", text)
    assert json.loads(start)["topology"] == spec


def library_rounds(spec: str, n: int, steps: int) -> list[list[list[object]]]:
    t = bg.topology(spec, n=n)
    found = []
    for step in range(t.period or steps):
        r = t.round(step)
        weights = map(Fraction, r.numerators.tolist(), r.denominators.tolist())
        labels = [bg.Origin(o).label for o in r.origins]
        ends = zip(r.receivers.tolist(), r.senders.tolist(), weights, labels, strict=True)
        found.append(sorted([i, j, w.numerator, w.denominator, o] for i, j, w, o in ends))
    return found


SPECS = [
    *[f"{name}:k={k}" for name in ("base", "simple-base") for k in (1, 2, 3, 5, 8)],
    *[f"hyper-hypercube:k={k}" for k in (1, 2, 6)],
    *[
        "euclid",
        "one-peer-hypercube",
        "one-peer-exponential",
        "exponential",
        "ring",
        "torus",
        "complete",
    ],
    *["d-equistatic:degree=3,seed=2", "u-equistatic:degree=2,seed=0"],
    *["one-peer-d-equidyn:seed=4", "one-peer-u-equidyn:seed=4"],
]


SIZES = [*range(1, 34), 81, 125, 127]
MORE_SIZES = [*range(34, 42), 120, 211, 256, 300]


@needs_browser
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(SIZES, id="to-127"),
        pytest.param(MORE_SIZES, id="to-300", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("spec", SPECS)
def test_computes_the_library_s_sequences_arc_for_arc(functions, spec, sizes):
    expected = {}
    for n in sizes:
        try:
            rounds = library_rounds(spec, n, steps=5)
        except bg.InvalidArgument:
            with pytest.raises(Exception, match="n must"):
                functions.evaluate("([spec, n]) => topology(spec, n).period", [spec, n])
            continue
        expected[n] = (bg.topology(spec, n=n).symmetric, rounds)
    shown = functions.evaluate(
        """([spec, sizes]) => sizes.map((n) => {
          const t = topology(spec, n);
          const rounds = Array.from({ length: t.period || 5 }, (_, step) => t.round(step));
          return JSON.stringify([t.symmetric, rounds]);
        })""",
        [spec, list(expected)],
    )
    for n, text in zip(expected, shown, strict=True):
        symmetric, rounds = json.loads(text)
        assert (symmetric, [sorted(round_) for round_ in rounds]) == expected[n], (spec, n)
    assert len(expected) >= (6 if sizes is SIZES else 1)


@needs_browser
def test_every_euclid_that_fits_the_page_is_the_library_s(functions):
    """The choice of factors and splits, for every n."""
    shown = functions.evaluate(
        "Array.from({ length: 300 }, (_, i) => i + 1).map((n) => [euclidFactors(n), mirrors(n)])"
    )
    for n, (factors, mirrors) in enumerate(shown, start=1):
        assert tuple(factors) == library_factors(n)
        exact = tuple((shift % n, Fraction(a, b)) for shift, a, b in mirrors)
        assert exact == library_mirrors(n), n


@needs_browser
def test_every_origin_has_a_colour(functions):
    known = functions.evaluate("Object.keys(ORIGIN_COLOURS)")
    shown = {origin.label for origin in bg.Origin if not origin.label.startswith("block-")}
    assert set(known) == shown


@needs_browser
def test_knows_the_whole_catalogue_but_what_it_says(functions):
    known = functions.evaluate("Object.keys(CATALOGUE)")
    assert sorted([*known, *LEFT_OUT]) == sorted(bg.TOPOLOGIES)


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
@pytest.mark.parametrize("size", [(390, 844), (1280, 900)])
def test_fits_a_phone_and_a_desk(browser, tmp_path, scheme, size):
    """Leaves a screenshot in pytest's temporary folder for a person to look at."""
    path = tmp_path / "page.html"
    write_page(path, bg.topology("base:k=2", n=25))
    width, height = size
    opened = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    opened.set_default_timeout(0)
    opened.goto(path.as_uri())
    opened.keyboard.press("ArrowRight")
    opened.screenshot(path=tmp_path / f"page-{scheme}-{width}.png", full_page=True)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    ink, paper = opened.evaluate(
        """["color", "backgroundColor"].map((property) =>
             Number(getComputedStyle(document.body)[property].match(/\\d+/)[0]))"""
    )
    assert (ink > paper) == (scheme == "dark")
    opened.close()


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
