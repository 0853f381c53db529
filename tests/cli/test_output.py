"""What commands print and leave with: bars on a terminal, lines in a pipe, exit codes."""

from __future__ import annotations

import pytest

from basegraph.cli.app import exit_code
from basegraph.cli.output import COUNT, Bar, progress
from basegraph.data import DataError
from basegraph.engines.checkpoint import CheckpointError
from basegraph.engines.distributed.pending import NotFinite
from basegraph.engines.distributed.recovery.node_files import NotSaved
from basegraph.engines.distributed.stamp import OutOfStep
from basegraph.errors import BasegraphError, Interrupted, InvalidArgument, PeerLost
from basegraph.experiments import VGG_11_PARAMETERS
from basegraph.extras import MissingExtra
from basegraph.models import FlatModel, build
from basegraph.storage import CannotWrite
from basegraph.training import Diverged
from support.cli import ok, run_here


def use_bar(**options):
    with Bar(f"step {COUNT}", "{task.fields[facts]}", total=4, facts="", **options) as bar:
        bar.update(completed=3, facts="loss [0.5]")
        bar.say("epoch [1]: done")


def test_lines_go_to_standard_output_without_a_terminal(capsys):
    use_bar()
    assert capsys.readouterr() == ("epoch [1]: done\n", "")


def test_nothing_is_printed_where_quiet_is_asked_for(capsys):
    use_bar(quiet=True)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("quiet", [False, True])
def test_a_terminal_gets_bar_and_lines_on_standard_error(quiet, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # what makes rich take any stream for a terminal
    use_bar(quiet=quiet)
    out, err = capsys.readouterr()
    assert out == ""
    assert "epoch [1]: done" in err
    assert "step 3/4" in err


def test_progress_gives_every_item_once(capsys):
    assert list(progress([3, 1, 2], "items")) == [3, 1, 2]
    assert capsys.readouterr() == ("", "")


def test_costs_are_of_the_model_that_they_name():
    assert FlatModel(build("vgg11", (3, 32, 32), 10, seed=0)).size == VGG_11_PARAMETERS
    assert f"model: VGG-11, {4 * VGG_11_PARAMETERS / 1e6:.3g} MB" in ok("bench", "model", "-n", 8)


def test_an_empty_number_of_parameters_is_refused():
    done = run_here("bench", "model", "--parameters", "")
    assert done.returncode == 2
    assert "--parameters=''" in done.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BasegraphError("x"), 2),
        (InvalidArgument("n", 0, "must be positive"), 2),
        (DataError("x"), 2),
        (CheckpointError("x"), 2),
        (MissingExtra("torch"), 2),
        (PeerLost("x"), 1),
        (CannotWrite("x"), 1),
        (NotFinite("x"), 1),
        (OutOfStep("x"), 1),
        (NotSaved("x"), 1),
        (Diverged("x"), 1),
        (Interrupted("x", 15), 143),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exit_codes(error, code):
    assert exit_code(error) == code
