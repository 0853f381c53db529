"""The report on runs, in a real browser."""

from __future__ import annotations

import json
import re

import pytest

from basegraph.plots.report import write_report
from basegraph.training.status import read_status
from support.browser import needs_browser, open_file, require_fit
from support.cli import ok, run_here
from support.runs import CHANGES, write_run

TEXT = {"measure": "bits_per_byte", "dataset": "text", "model": "gpt-tiny"}


@pytest.fixture
def runs(tmp_path):
    """Three runs: two of one topology, one of another, whose nodes have changed."""
    write_run(tmp_path / "runs" / "base", 4, nodes=5)
    write_run(tmp_path / "runs" / "again", 3, nodes=5, seed=1)
    write_run(tmp_path / "runs" / "ring", 4, nodes=3, topology="ring", changes=CHANGES)
    return tmp_path / "runs"


@pytest.fixture
def shown(tab, runs, tmp_path):
    assert "3 runs written to" in ok("report", runs, "--out", tmp_path / "report.html")
    with open_file(tab, tmp_path / "report.html") as opened:
        yield opened


def hover(page, chart, share):
    box = page.locator(f"#{chart} svg").bounding_box()
    page.mouse.move(box["x"] + share * box["width"], box["y"] + 60)


@needs_browser
def test_curves_are_drawn_in_their_topologies_colors(shown):
    curves = shown.locator("#test .curve[data-run]")
    styles = {one.get_attribute("data-run"): one.get_attribute("style") for one in curves.all()}
    assert sorted(styles) == ["runs/again", "runs/base", "runs/ring"]
    colors = {name: re.findall("#[0-9a-f]{6}", style)[0] for name, style in styles.items()}
    assert colors["runs/again"] == colors["runs/base"] == "#0b5c8a"
    assert colors["runs/ring"] == "#6f7883"
    assert len(set(styles.values())) == 3
    for chart in ("validation", "train_loss", "consensus_distance", "bytes_per_node", "nodes"):
        assert shown.locator(f"#{chart} .curve").count() == (0 if chart == "validation" else 3)
    ticks = shown.locator("#nodes .tick.y").all_text_contents()
    assert ticks == ["2", "3", "4", "5"]


@needs_browser
def test_pointing_and_keys_tell_values(shown):
    hover(shown, "test", 0.99)
    values = shown.locator("#test .values")
    assert "epoch 4" in values.inner_text()
    assert values.inner_text().count("54.0 %") == 2
    assert "53.0 %" in values.inner_text()
    shown.mouse.move(1, 1)
    assert values.is_hidden()
    shown.locator("#consensus_distance svg").focus()
    for key in ("ArrowRight", "ArrowRight"):
        shown.keyboard.press(key)
    text = shown.locator("#consensus_distance .values").inner_text()
    assert "epoch 2" in text
    assert "1.00e-2" in text


@needs_browser
def test_runs_are_switched_off_and_on(shown):
    button = shown.locator("#legend button", has_text="ring")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert shown.locator("#test .curve[data-run]").count() == 2
    button.click()
    assert shown.locator("#test .curve[data-run]").count() == 3
    shown.evaluate("showOnly('runs/base')")
    assert shown.locator("#test .curve[data-run]").count() == 1
    shown.select_option("#axis", "bytes_per_node")
    shown.select_option("#whose", "_worst")
    hover(shown, "test", 0.99)
    assert "MB sent per node 8" in shown.locator("#test .values").inner_text()


@needs_browser
def test_tables_say_settings_members_and_provenance(shown):
    settings = shown.locator("section", has_text="Settings").first.inner_text()
    assert re.search(r"topology\s+base:k=1\s+base:k=1\s+ring|topology.*ring", settings)
    members = shown.locator("section", has=shown.locator("h2", has_text="Members")).inner_text()
    assert "3 → 2" in members
    assert "d" in members
    shown.locator("summary", has_text="runs/base").click()
    assert "folder" in shown.locator("details[open]").last.inner_text()


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_fits_a_phone_and_a_desk(tab, runs, tmp_path, width, scheme):
    write_run(runs / "a-name-that-is-longer-than-others-and-does-not-fit-on-a-phone", 2)
    ok("report", runs, "--out", tmp_path / "report.html")
    with open_file(tab, tmp_path / "report.html", width=width, scheme=scheme) as opened:
        require_fit(opened, width, scheme)
        hover(opened, "test", 0.5)
        box = opened.locator("#test .values").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        opened.screenshot(path=tmp_path / f"report-{scheme}-{width}.png", full_page=True)


@needs_browser
def test_text_losses_and_one_evaluation(tab, tmp_path):
    """Curves of single points, of equal values, and of values that are not finite."""
    for name, options in (("text", TEXT), ("losses", {"measure": "loss"})):
        folder = write_run(tmp_path / name, 1, **options)
        row = json.loads((folder / "metrics.jsonl").read_text())
        row |= {"train_loss": float("nan"), "consensus_distance": 0.0, "tokens": 2_000_000}
        (folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
        ok("report", folder, "--out", tmp_path / f"{name}.html")
        with open_file(tab, tmp_path / f"{name}.html") as opened:
            heading = "Test bits per byte" if name == "text" else "Test loss"
            assert opened.locator("h2", has_text=heading).count() == 1
            assert opened.locator("#test circle").count() == 1
            assert "nothing to show" in opened.locator("#train_loss").inner_text()
            assert "nothing to show" in opened.locator("#consensus_distance").inner_text()
            assert opened.locator("#axis").input_value() == "tokens"


def test_nothing_of_a_run_becomes_markup(tmp_path):
    evil = "<img src=x onerror=alert(1)></script>"
    folder = write_run(tmp_path / "run", 1, dataset=f"text:{evil}")
    (folder / "provenance.json").write_text(json.dumps({"command": evil}))
    write_report(tmp_path / "report.html", [read_status(folder, evil)])
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<img" not in text
    assert text.count("</script>") == 1
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert 'src="' not in text


def test_long_runs_keep_their_ends(tmp_path):
    folder = write_run(tmp_path / "run", 5000, of=5000)
    ok("report", folder, "--out", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    (line,) = re.findall("const RUNS = (.*);", text)
    epochs = json.loads(line)[0]["columns"]["epoch"]
    assert (len(epochs), epochs[0], epochs[-1]) == (2000, 1, 5000)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere", "--out", "a.html"], "RUNS='nowhere': is not a folder with runs"),
        (["begun", "--out", "a.html"], "RUNS='begun': has no evaluation yet"),
        (["run", "--out", "a.pdf"], "--out='a.pdf': must end in .html"),
        (["run", "text", "--out", "a.html"], "RUNS='text': has no test_accuracy"),
    ],
)
def test_mistakes(arguments, complaint, tmp_path):
    write_run(tmp_path / "begun", 0)
    write_run(tmp_path / "run", 1)
    write_run(tmp_path / "text", 1, **TEXT)
    done = run_here("report", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "a.html").exists()
