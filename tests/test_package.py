"""What the package promises as a whole: light imports, complete public names, one-way layers."""

from __future__ import annotations

import ast
import importlib
import pydoc
import re
import subprocess
import sys
from contextlib import nullcontext, suppress
from inspect import ismodule
from pathlib import Path

import pytest

import basegraph as bg

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "basegraph"
OLD_NAMES = {"gossip"}
"""Names that still work, and are neither listed nor documented: `bg.analysis.gossip`."""
LAZY_PACKAGES = [
    "basegraph",
    *[f"basegraph.{name}" for name in ("engines", "models", "optim", "plots", "training")],
    "basegraph.integrations",
    *[
        f"basegraph.engines.distributed{name}"
        for name in ("", ".membership", ".recovery", ".shutdown")
    ],
]
NEEDS_OTHERS = {"basegraph.integrations"}
"""Packages with names that need an extra which `dev` has not."""
HEAVY = {"torch", "safetensors", "sklearn", "PIL", "matplotlib", "ray", "networkx", "scipy"}
EXCEPTIONS = {("topologies/core/sequence.py", "plots")}
"""`t.draw()` belongs to the topology for its users; it imports the figures when it is called."""


def layers() -> list[str]:
    """The order of modules and packages as CONTRIBUTING states it, lowest first."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^errors ←(?: \w+ ←)+ \w+$", text, flags=re.MULTILINE)
    return line.split(" ← ")


LAYERS = layers()


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after this code."""
    code += "\nimport sys; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_nothing_else():
    loaded = loaded_by("import basegraph")
    assert "basegraph" in loaded
    assert not (HEAVY | {"numpy"}) & loaded


def test_names_of_the_core_need_numpy_alone():
    with_torch = {"DecentralizedOptimizer", "Gossip", "export", "sample", "train"}
    with_torch |= {"Restored", "load_checkpoint", "save_averaged", "save_checkpoint"}
    names = sorted(set(bg.__all__) - with_torch)
    loaded = loaded_by(f"from basegraph import {', '.join(names)}")
    assert "numpy" in loaded
    assert not HEAVY & loaded


@pytest.mark.parametrize("package", ["data", "plots", "storage", "training", "experiments", "cli"])
def test_packages_leave_torch_and_matplotlib_until_needed(package):
    assert not (HEAVY - {"scipy", "networkx"}) & loaded_by(f"import basegraph.{package}")


@pytest.mark.parametrize("package", LAZY_PACKAGES)
def test_what_type_checkers_see_is_what_is_loaded(package):
    module = importlib.import_module(package)
    (branch,) = [
        statement
        for statement in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body
        if isinstance(statement, ast.If)
    ]
    seen = {
        alias.name: statement.module
        for statement in branch.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == module._HOMES
    assert sorted(module.__all__) == sorted(seen.keys() - OLD_NAMES)
    for name in module.__all__:
        with suppress(bg.MissingExtra) if package in NEEDS_OTHERS else nullcontext():
            assert getattr(module, name) is not None


def test_dir_and_help_are_complete():
    assert set(bg.__all__) <= set(dir(bg))
    assert not [name for name in dir(bg) if name[0] == "_" and name[:2] != "__"]
    text = pydoc.render_doc(bg, renderer=pydoc.plaintext)
    for name in bg.__all__:
        assert re.search(rf"\b{name}\b", text), name


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="module 'basegraph' has no attribute 'topologie'"):
        bg.topologie  # noqa: B018


def test_packages_are_themselves():
    import basegraph.topologies

    assert basegraph.topologies.__path__
    assert bg.analysis is importlib.import_module("basegraph.topologies.analysis")


def layer(module: str) -> int | None:
    parts = module.split(".")
    if parts[0] != "basegraph":
        return None
    return LAYERS.index(parts[1]) if len(parts) > 1 else -1


def test_layers_are_the_modules_of_the_package():
    modules = {path.relative_to(SOURCE).with_suffix("").parts[0] for path in SOURCE.rglob("*.py")}
    assert modules - {"__init__"} == set(LAYERS)


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.relative_to(SOURCE).as_posix()
)
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
            file, package = path.relative_to(SOURCE).as_posix(), module.split(".")[1:2]
            if any((file, package) == (known, [name]) for known, name in EXCEPTIONS):
                continue
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


def test_no_module_hides_behind_an_exported_name():
    """One would get the function where the module was asked for: such a module begins with _."""
    for folder in SOURCE.rglob("__init__.py"):
        package = ".".join(["basegraph", *folder.parent.relative_to(SOURCE).parts])
        exported = getattr(importlib.import_module(package), "__all__", [])
        modules = {path.stem for path in folder.parent.glob("*.py")}
        hidden = [name for name in exported if name in modules]
        hidden = [n for n in hidden if not ismodule(getattr(sys.modules[package], n))]
        assert not hidden, f"{package}: {hidden}"
