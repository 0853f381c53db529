"""What the package promises as a whole: light imports, one-way layers."""

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
    "specs",
    "storage",
    "topologies",
    "algorithms",
    "data",
    "models",
    "engines",
    "training",
    "optim",
    "plots",
    "experiments",
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


def test_no_file_speaks_of_a_machine():
    for path in [*SOURCE.rglob("*.py"), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        assert not re.search(r"/(home|root|work)/", path.read_text()), path


def test_tests_mirror_the_source():
    """A folder of tests is named after the package that it tests, apart from what tests share."""
    shared = {"support", "scripts", "contracts", "golden", "benchmarks"}
    tests = ROOT / "tests"
    folders = {path.parent.relative_to(tests) for path in tests.glob("*/**/*.py")}
    for folder in sorted(folders):
        if folder.parts[0] not in shared:
            assert (SOURCE / folder / "__init__.py").is_file(), folder
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    assert packages <= {folder.parts[0] for folder in folders}
