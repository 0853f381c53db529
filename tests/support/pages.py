"""The pages of the documentation, and the blocks of code in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


class Block(NamedTuple):
    """A fenced block of a page; of a `diff`, the text is what there is after the change."""

    page: str
    language: str
    text: str
    not_run: str | None

    @property
    def file(self) -> str | None:
        """The name of the file that this is."""
        named = re.match(r"# ([\w-]+\.\w+)\n", self.text)
        return named.group(1) if named else None

    @property
    def is_python(self) -> bool:
        """Whether a type checker can read it."""
        return self.language == "python" or (self.file or "").endswith(".py")


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page; a fence with a name in braces is a directive of the site, not code."""
    pattern = r"(?:^<!-- not run: (.+) -->\n)?^```(.*)\n((?:.*\n)*?)^```$"
    name = page.relative_to(ROOT).as_posix()
    matches = re.findall(pattern, page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [
        Block(name, language, changed(text)[1] if language == "diff" else text, why or None)
        for why, language, text in matches
        if not language.startswith("{")
    ]


def changed(diff: str) -> tuple[str, str]:
    """The file before and after a change that is shown with all of its lines."""
    lines = [line or " " for line in diff.splitlines()]
    before = [line[1:] for line in lines if line[0] in " -"]
    after = [line[1:] for line in lines if line[0] in " +"]
    return "\n".join(before) + "\n", "\n".join(after) + "\n"
