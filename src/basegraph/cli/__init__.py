"""The command line: thin commands that parse, call and print."""

from basegraph.cli.app import main

__all__ = ["main"]
