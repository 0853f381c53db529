"""The command line. A user's mistake is one line on standard error and exit code 2."""

from __future__ import annotations

import io
import os
import sys
import time
from functools import cache
from typing import Any

import typer

from basegraph import __version__
from basegraph.cli import bench, data, reproduce
from basegraph.cli.advise import advise
from basegraph.cli.compare import compare
from basegraph.cli.consensus import consensus
from basegraph.cli.doctor import doctor
from basegraph.cli.explore import explore
from basegraph.cli.export import export
from basegraph.cli.language import language
from basegraph.cli.launch import launch
from basegraph.cli.learning import learning, mnist
from basegraph.cli.lengths import lengths
from basegraph.cli.report import report
from basegraph.cli.sample import sample
from basegraph.cli.sweep import sweep
from basegraph.cli.topology import topology
from basegraph.cli.train import train
from basegraph.cli.verify import verify
from basegraph.cli.watch import watch
from basegraph.errors import BasegraphError, Interrupted, InvalidArgument, RuntimeFailure
from basegraph.extras import optional_imports
from basegraph.launched import repeats_others
from basegraph.storage._provenance import recorded_command
from basegraph.storage.files import AlreadyExists

# Typer's usage errors descend from a class of click's that it does not re-export everywhere.
UsageError: Any = typer.BadParameter.__bases__[0]

PARAMETERS = {"n": "nodes", "i": "node", "k": "degree", "sweep": "file", "arms": "methods"}
"""What commands call the library's arguments, where that differs."""

app = typer.Typer(
    name="basegraph",
    help="Exact averaging in finitely many gossip rounds, for any number of nodes.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command, summary in (
    (advise, "Rank topologies for your network and model."),
    (topology, "Show a topology, or list the catalogue."),
    (verify, "Prove that a sequence averages exactly."),
    (lengths, "Compare numbers of rounds."),
    (consensus, "Measure the consensus error, round by round."),
    (explore, "Write an interactive HTML page."),
    (train, "Train n nodes over a topology."),
    (sweep, "Run a grid of configurations."),
    (watch, "Follow a run while it trains."),
    (report, "Write an HTML report on runs."),
    (compare, "Compare runs: final scores, learning curves."),
    (export, "Export a trained model."),
    (sample, "Generate text with a trained model."),
    (doctor, "Show versions, backends, GPUs and extras."),
):
    app.command(short_help=summary)(command)
app.command(
    short_help="Start a script on several nodes.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)(launch)
for command, summary in (
    (language, "Topologies and methods on text."),
    (learning, "A training figure of the paper."),
    (mnist, "LeNet on MNIST."),
):
    reproduce.app.command(short_help=summary)(command)
app.add_typer(reproduce.app, name="reproduce")
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")


def show_version(asked: bool) -> None:
    """Print the version and leave."""
    if asked:
        print(f"basegraph {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=show_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Options before the command."""


def main(argv: list[str] | None = None) -> None:
    """Run the command line and turn users' mistakes into one line.

    Args:
        argv: The words after `basegraph`; None takes them from `sys.argv`.

    Raises:
        SystemExit: Always, with the exit code.

    """
    # Before torch is loaded: its threads would otherwise spin while they wait for each other, which
    # slows them down many times over where other programs hold the cores (benchmarks/threads.py).
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show ← gets a ?
            stream.reconfigure(errors="replace")
    words = sys.argv[1:] if argv is None else argv
    try:
        with optional_imports(), recorded_command(argv):
            status = root_command()(words or ["--help"], standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        fail(error.format_message(), 2)
    except InvalidArgument as error:
        if error.reported_elsewhere or repeats_others():
            sys.exit(2)
        remedy = "; --force overwrites it" if isinstance(error, AlreadyExists) else ""
        text = f"{str(error)[len(error.argument) :]}{remedy}"
        fail(f"{flag_of(error.argument, words)}{text}", 2)
    except BasegraphError as error:
        if error.reported_elsewhere:
            sys.exit(exit_code(error))
        if error.reported_by not in (None, int(os.environ.get("RANK", "0"))):
            wait_for_torchrun()
            sys.exit(exit_code(error))
        fail(str(error), exit_code(error))
    except MemoryError as error:
        fail(f"not enough memory: {error}", 1)
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        silence()
        sys.exit(1)
    except OSError as error:
        silence()
        fail(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        fail("interrupted", 130)
    sys.exit(status if isinstance(status, int) else 0)


@cache
def root_command() -> Any:
    """All commands as one, made once: that takes longer than most of them."""
    return typer.main.get_command(app)


def flag_of(argument: str, words: list[str]) -> str:
    """What the command of these words calls an argument of the library: its flag, if it has one."""
    command = root_command()
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    name = PARAMETERS.get(argument, argument)
    for parameter in command.params:
        if parameter.name == name:
            flags = [flag for flag in parameter.opts if flag.startswith("--")]
            return flags[0] if flags else (parameter.metavar or name.upper()).strip(".")
    return argument


def exit_code(error: BasegraphError) -> int:
    """128 + the signal that stopped a run, 1 for a failure at run time, 2 for a user's mistake."""
    if isinstance(error, Interrupted):
        return 128 + error.signal
    return 1 if isinstance(error, RuntimeFailure) else 2


def silence() -> None:
    """Let nothing more be written to a standard output that does not take it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str, code: int) -> None:
    """One line on standard error, then leave with this exit code.

    Of the processes that torchrun starts on a machine, all make the same mistake: one says it, and
    then torchrun ends the others.
    """
    if code == 2 and os.environ.get("LOCAL_RANK", "0") != "0":
        wait_for_torchrun()
    print(f"basegraph: error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


def wait_for_torchrun() -> None:
    """Wait for torchrun to end this process, as it does as soon as another one has failed.

    That one has said why; if there is none (a busy machine takes its time), this one speaks.
    """
    time.sleep(30)
