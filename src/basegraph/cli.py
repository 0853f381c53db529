"""The command line. A user's mistake is one line on standard error and exit code 2."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer

from basegraph import __version__
from basegraph.commands import reproduce
from basegraph.commands.consensus import consensus
from basegraph.commands.lengths import lengths
from basegraph.commands.topology import topology
from basegraph.commands.verify import verify
from basegraph.errors import BasegraphError

# Typer's usage errors descend from a class of click's that it does not re-export everywhere.
UsageError: Any = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="basegraph",
    help="Exact averaging in finitely many gossip rounds, for any number of nodes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (topology, verify, lengths, consensus):
    app.command()(command)
app.add_typer(reproduce.app, name="reproduce")


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


def main() -> None:
    """Run the command line and turn users' mistakes into one line."""
    try:
        status = app(standalone_mode=False)
    except UsageError as error:
        message = error.format_message()
        if not message:  # no arguments at all: the help has been shown
            sys.exit(0)
        fail(message, 2)
    except BasegraphError as error:
        fail(str(error), 2)
    except MemoryError as error:
        fail(f"not enough memory: {error}", 1)
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (KeyboardInterrupt, typer.Abort):
        fail("interrupted", 130)
    sys.exit(status if isinstance(status, int) else 0)


def fail(message: str, code: int) -> None:
    """One line on standard error, then leave with this exit code."""
    print(f"basegraph: error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
