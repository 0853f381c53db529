"""The sdist and the wheel: they build, install and work away from the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import networkx
import numpy
import pytest
import rich
import scipy
import typer

import basegraph as bg

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
BUILD = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"
PACKAGED = """
import pathlib, basegraph as bg, basegraph.data._text, basegraph.cli

home = pathlib.Path(bg.__file__).parent
assert home.is_relative_to(pathlib.Path.cwd()), home
print(bg.verify(bg.topology("short", n=33, k=1)))
print(bg.topology("steady", n=12).period, len(list(basegraph.data._text.EMBEDDED.glob("*.txt"))))
assert (home / "py.typed").is_file()
basegraph.cli.main(["explore", "--out", "page.html", "-n", "6"])
"""


def run(*words: object, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """The sdist of a copy of the checkout, and the wheel of what that sdist holds."""
    folder = tmp_path_factory.mktemp("built")
    copy = folder / "copy"
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(SOURCE, copy / "src", ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    run(sys.executable, "-c", BUILD.format("sdist"), folder, cwd=copy)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    run(sys.executable, "-c", BUILD.format("wheel"), folder, cwd=unpacked)
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def test_every_file_of_the_package_is_in_the_wheel(built):
    _, wheel = built
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("basegraph/")}
    files = {p.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("*") if p.is_file()}
    left_out = {f for f in files if "__pycache__" in f or ".egg-info" in f}
    assert packed == files - left_out


def test_the_wheel_works_in_an_environment_of_its_own(built, tmp_path):
    """Nothing but the core's dependencies is there, and no checkout."""
    _, wheel = built
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    core = {Path(m.__file__).parents[1] for m in (numpy, scipy, networkx, typer, rich)}
    (packages,) = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    (packages / "core.pth").write_text("".join(f"{folder}\n" for folder in sorted(core)))
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    run(*pip, "install", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    command = tmp_path / "env" / "bin" / "basegraph"
    assert run(command, "--version", cwd=tmp_path) == f"basegraph {bg.__version__}\n"
    proof, steady, *_ = run(python, "-c", PACKAGED, cwd=tmp_path).splitlines()
    assert proof.startswith("short:k=1, n=33: 7 rounds")
    assert steady == f"{bg.topology('steady', n=12).period} 6"
    assert "<script" in (tmp_path / "page.html").read_text(encoding="utf-8")
