"""What the package promises as a whole: light imports, one-way layers, true documentation."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "basegraph"
LAYERS = [
    "errors",
    "files",
    "specs",
    "checkpoint",
    "provenance",
    "topology",
    "consensus",
    "mixing",
    "algorithms",
    "optim",
    "data",
    "models",
    "training",
    "plots",
    "experiments",
    "commands",
    "cli",
    "__main__",
]
"""Imports point left only."""


def test_import_is_light():
    code = "import sys, basegraph; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "numpy" in loaded
    assert not {"torch", "matplotlib", "networkx", "scipy"} & set(loaded)


def layer(module: str) -> int | None:
    parts = module.split(".")
    if parts[0] != "basegraph":
        return None
    return LAYERS.index(parts[1]) if len(parts) > 1 else -1


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.name)
def test_imports_point_one_way(path):
    own = path.relative_to(SOURCE).with_suffix("").parts[0]
    if own == "__init__":
        return
    for statement in ast.walk(ast.parse(path.read_text())):
        modules = []
        if isinstance(statement, ast.ImportFrom):
            modules = [statement.module or ""]
        elif isinstance(statement, ast.Import):
            modules = [alias.name for alias in statement.names]
        for module in modules:
            position = layer(module)
            assert position is None or position <= LAYERS.index(own), f"{path}: {module}"


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), flags=re.DOTALL)


def test_the_readme_example_runs_as_written(tmp_path):
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    examples = [example for page in pages for example in blocks(page, "python")]
    # A script with a name is for torchrun: tests/distributed runs it.
    examples = [example for example in examples if not example.startswith("# train.py")]
    assert examples
    for example in examples:
        printed = subprocess.run(
            [sys.executable, "-c", example],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=True,
        ).stdout.splitlines()
        promised = re.findall(r"# > (.*)", example)
        assert promised
        assert printed == promised


def test_commands_print_what_the_docs_show():
    shown = [block for page in (ROOT / "docs").glob("*.md") for block in blocks(page, "console")]
    assert shown
    for block in shown:
        command, _, promised = block.partition("\n")
        dollar, program, *arguments = command.split()
        assert (dollar, program) == ("$", "basegraph")
        printed = subprocess.run(
            [sys.executable, "-m", program, *arguments], capture_output=True, text=True, check=True
        ).stdout
        assert printed == promised, command


def test_no_file_speaks_of_a_machine():
    for path in [*SOURCE.rglob("*.py"), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        assert not re.search(r"/(home|root|work)/", path.read_text()), path
