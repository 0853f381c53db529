"""The reference of the command line, written from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from basegraph.cli.app import app


def command_reference(_: str = "") -> str:
    """Write Markdown: a section for every command, in the order of `basegraph --help`."""
    return "\n\n".join(section(words, command) for words, command in leaves("basegraph", root()))


def root() -> Any:
    """The group of all commands, a click group."""
    return typer.main.get_command(app)


def leaves(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with the words that call it."""
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, below in command.commands.items():
        yield from leaves(f"{words} {name}", below)


def section(words: str, command: Any) -> str:
    """Write one command: what it does, how it is called, its arguments and options."""
    context = typer.Context(command, info_name=words)
    usage = " ".join([words, *command.collect_usage_pieces(context)])
    records: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and parameter.name != "help":
            records[parameter.param_type_name].append(record)
    parts = [f"## `{words}`", *prose(command.help or ""), f"```text\n{usage}\n```"]
    parts += [table(kind, rows) for kind, rows in records.items() if rows]
    return "\n\n".join(parts)


def prose(text: str) -> Iterator[str]:
    """The paragraphs of a help text, examples as commands."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        line = " ".join(paragraph.split())
        if line.startswith("Example: "):
            yield f"```sh\n{line.removeprefix('Example: ')}\n```"
        else:
            yield escape(line)


def table(kind: str, rows: list[tuple[str, str]]) -> str:
    """Write a Markdown table of parameters."""
    lines = [f"| {kind} | |", "| --- | --- |"]
    lines += [f"| {code(written)} | {escape(text)} |" for written, text in rows]
    return "\n".join(lines)


def code(text: str) -> str:
    """Write code in a cell of a table."""
    return f"`{text.replace('|', chr(92) + '|')}`"


def escape(text: str) -> str:
    """Let Markdown show these characters as they are."""
    for character in "\\*_|<>[]$":
        text = text.replace(character, f"\\{character}")
    return text
