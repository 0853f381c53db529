"""Every block of code in README and docs is run; those that are not say why, and are listed here.

- `sh`: the commands must succeed, in a folder of their own with the files that the page shows.
- `console`: the command after `$` must print what follows.
- `python`: must print what its comments `# > ...` say.
- `diff`: shown only.
- A block whose first line is `# NAME`, as in `# train.py`, is such a file for the page's commands.
- A line `<!-- not run: REASON -->` before a block excepts it.

All Python, the files too, must pass `mypy --strict` as code of a user's project.
"""

from __future__ import annotations

import os
import pydoc
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest
from torch.distributed.run import parse_args as torchrun_arguments

import basegraph as bg
from basegraph import cli
from support.forks import nodes_of

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

NOT_RUN = {
    "README.md": ["makes its own environment; takes minutes", "installs packages"],
    "docs/distributed.md": ["a fragment"] * 4 + ["continues a run that was stopped"],
    "docs/live.md": ["installs packages", "needs a Slurm cluster"],
}
"""The blocks that are not run, by page."""

SMALLER = {
    "verify base --nodes 1:300": "verify base --nodes 1:30",
    "verify short --nodes 2:256": "verify short --nodes 2:32",
    "verify euclid --nodes 2:512": "verify euclid --nodes 2:64",
    "verify block-merge --nodes 2:256": "verify block-merge --nodes 2:32",
    "verify short:redundant=false --nodes 2:256": "verify short:redundant=false --nodes 2:32",
    "verify ceca --nodes 2:256": "verify ceca --nodes 2:64",
    "bench model --nodes 2:4096": "bench model --nodes 2:256",
    "reproduce consensus": "reproduce consensus --seed 0",
    "--out runs/base": "--epochs 1 --out runs/base",
    "--lr 0.003 --out runs/text": "--epochs 1 --lr 0.003 --out runs/text",
    "--epochs 60": "--epochs 1",
    "--seed 0:4 --epochs 50": "--seed 0 --epochs 1 --nodes 5",
    "epochs = 30": "epochs = 1",
    "epochs = 60": "epochs = 1",
    "--out runs/five": "--epochs 1 --out runs/five",
    "--nproc-per-node 5": "--nproc-per-node 2",
    "launch --nodes 4": "launch --nodes 2",
    "--out runs/live": "--epochs 1 --out runs/live",
}
"""What is run instead of what the pages say, so that it takes seconds; nothing else is changed."""

PRINTED = {"torchrun --nproc-per-node 5 train.py": r"node \d: loss 0\.0"}
"""What commands must print, besides succeeding."""


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    language: str
    text: str
    not_run: str | None

    @property
    def file(self) -> str | None:
        """The name of the file that this is."""
        named = re.match(r"# ([\w-]+\.\w+)\n", self.text)
        return named.group(1) if named else None


def blocks_of(page: Path) -> list[Block]:
    pattern = r"(?:^<!-- not run: (.+) -->\n)?^```(.*)\n((?:.*\n)*?)^```$"
    name = page.relative_to(ROOT).as_posix()
    matches = re.findall(pattern, page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [Block(name, language, text, why or None) for why, language, text in matches]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def of_language(language: str) -> list[object]:
    """The blocks that are to be run, as parameters of a test."""
    chosen = [b for b in BLOCKS if b.language == language and not b.not_run and not b.file]
    assert chosen
    return [pytest.param(b, id=f"{b.page}-{n}") for n, b in enumerate(chosen)]


def test_blocks_are_run_or_say_why_not():
    excepted: dict[str, list[str]] = {}
    for block in BLOCKS:
        known = block.language in ("sh", "console", "python", "diff") or block.file
        assert known, f"{block.page}: a block of {block.language or 'no language'}: {block.text}"
        if block.not_run:
            excepted.setdefault(block.page, []).append(block.not_run)
    assert excepted == NOT_RUN
    fences = {page: page.read_text(encoding="utf-8").count("```") for page in PAGES}
    assert sum(fences.values()) == 2 * len(BLOCKS)


def test_what_is_changed_is_there_to_be_changed():
    shown = "".join(block.text for block in BLOCKS if not block.not_run)
    assert [text for text in [*SMALLER, *PRINTED] if text not in shown] == []


def smaller(text: str) -> str:
    for shown, run in SMALLER.items():
        text = text.replace(shown, run)
    return text


def basegraph(words: list[str]) -> str:
    """What the command line prints, in this process."""
    with redirect_stdout(StringIO()) as printed, pytest.raises(SystemExit) as left:
        cli.main(words)
    assert not left.value.code, words
    return printed.getvalue()


def torchrun(words: list[str]) -> str:
    """What the nodes print that this command line of torchrun asks for."""
    asked = torchrun_arguments(words)
    module = ["-m"] if asked.module else []
    script = asked.training_script if asked.module else Path(asked.training_script).resolve()
    nodes = int(asked.nproc_per_node)
    done = nodes_of(nodes, *module, script, *asked.training_script_args)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("block", of_language("sh"))
def test_commands_succeed(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for other in BLOCKS:
        if other.page == block.page and other.file:
            Path(other.file).write_text(smaller(other.text), encoding="utf-8")
    for line in block.text.replace("\\\n", "").splitlines():
        words: list[str] = []
        for word in shlex.split(smaller(line), comments=True):
            words += sorted(map(str, Path().glob(word))) if "*" in word else [word]
        program, *arguments = words
        if program == "torchrun":
            printed = torchrun(arguments)
        else:
            assert program == "basegraph", line
            printed = basegraph(arguments)
        assert re.search(PRINTED.get(line, ""), printed), line


def test_cluster_examples_are_well_formed():
    yaml = pytest.importorskip("yaml")
    scripts = [b.text for b in BLOCKS if b.not_run == "needs a Slurm cluster"]
    assert scripts
    for text in scripts:
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    manifests = [b.text for b in BLOCKS if (b.file or "").endswith(".yaml")]
    assert manifests
    for text in manifests:
        for part in yaml.safe_load_all(text):
            assert {"apiVersion", "kind", "metadata", "spec"} <= part.keys()


@pytest.mark.parametrize("block", of_language("console"))
def test_commands_print_what_the_docs_show(block):
    command, _, promised = block.text.partition("\n")
    dollar, program, *arguments = command.split()
    assert (dollar, program) == ("$", "basegraph")
    assert basegraph(arguments) == promised


@pytest.mark.parametrize("block", of_language("python"))
def test_examples_print_what_their_comments_say(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    promised = re.findall(r"# > (.*)", block.text)
    assert promised
    with redirect_stdout(StringIO()) as printed:
        exec(compile(block.text, block.page, "exec"), {"__name__": "__main__"})
    assert printed.getvalue().splitlines() == promised


def test_user_code_passes_mypy_strict(tmp_path):
    complete = [b for b in BLOCKS if b.text and not b.not_run and is_python(b)]
    assert len(complete) > 5
    for number, block in enumerate(complete):
        page = re.sub(r"\W", "_", block.page)
        (tmp_path / f"{page}_{number}.py").write_text(block.text, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(USER_CONFIGURATION, encoding="utf-8")
    cache = ROOT / ".mypy_cache" / "user-code"
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), "."],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(Path(bg.__file__).parents[1])},
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout == f"Success: no issues found in {len(complete)} source files\n"


def is_python(block: Block) -> bool:
    return block.language == "python" or (block.file or "").endswith(".py")


USER_CONFIGURATION = """
[mypy]
# backward() has no types
untyped_calls_exclude = torch

[mypy-torch.*]
# torch.distributed does not list TCPStore in __all__
implicit_reexport = True

[mypy-basegraph.*]
# as of an installed package with py.typed: its types are used, its own code is not reported
follow_imports = silent
"""


def test_the_package_says_that_it_is_typed():
    assert (Path(bg.__file__).parent / "py.typed").is_file()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "py.typed" in project["tool"]["setuptools"]["package-data"]["basegraph"]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_files_and_names_that_pages_mention_exist(page):
    text = page.read_text(encoding="utf-8")
    folders = ("src", "tests", "scripts", "benchmarks", "examples")
    files = [f"/{path.as_posix()}" for folder in folders for path in (ROOT / folder).rglob("*.py")]
    for name in re.findall(r"`(?:python )?([\w/]+\.py)\b", text):
        if name != "train.py" and not name.endswith("NAME.py"):
            assert any(file.endswith(f"/{name}") for file in files), name
    for dotted in re.findall(r"`(?:basegraph|bg)\.([\w.]+)", text):
        assert pydoc.locate(f"basegraph.{dotted}") is not None, dotted
