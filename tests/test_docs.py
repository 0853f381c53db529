"""Every block of code in README and docs is run; those that are not say why, and are listed here.

- `sh`: the commands must succeed, in a folder of their own with the files that the page shows.
- `console`: the command after `$` must print what follows.
- `python`: must print what its comments `# > ...` say.
- `diff`: a whole file, whose name is in its first line, and what changes in it.
- A tutorial is run from top to bottom: its blocks share a folder and their names.
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
from collections.abc import Iterable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from torch.distributed.run import parse_args as torchrun_arguments

import basegraph as bg
from basegraph import cli
from basegraph.engines.distributed import launcher
from support.forks import fork_of, nodes_of
from support.pages import PAGES, ROOT, Block, blocks_of, changed

NOT_RUN = {
    "README.md": ["makes its own environment; takes minutes", "installs packages"],
    "docs/index.md": ["a fragment"],
    "docs/start/install.md": ["installs packages"],
    "docs/tutorials/script.md": ["a fragment"],
    "docs/howto/ddp.md": ["a fragment"] * 3,
    "docs/howto/distributed.md": ["a fragment"],
    "docs/howto/integrations.md": [
        *["installs packages", "a fragment", "needs tensorboard, wandb and mlflow", "a fragment"],
    ],
    "docs/howto/live.md": ["installs packages"],
    "docs/howto/resume.md": ["a fragment", "continues a run that was stopped"],
    "docs/howto/sharded.md": ["a fragment"],
    "docs/howto/slurm.md": ["needs a Slurm cluster"] * 2,
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
    "--alpha 0.1 --out runs": "--alpha 0.1 --epochs 1 --out runs",
    "--epochs 60": "--epochs 1",
    "--seed 0:4 --epochs 50": "--seed 0 --epochs 1 --nodes 5",
    "epochs = 30": "epochs = 1",
    "epochs = 60": "epochs = 1",
    "--out runs/five": "--epochs 1 --out runs/five",
    "--nproc-per-node 5": "--nproc-per-node 2",
    "train.py 100": "train.py 50",
    "train.py 200": "train.py 100",
    "launch --nodes 4": "launch --nodes 2",
    "--out runs/live": "--epochs 1 --out runs/live",
}
"""What is run instead of what the pages say, so that it takes seconds; nothing else is changed."""

PRINTED = {
    "README.md": r"node \d: loss 0\.0",
    "docs/start/script.md": r"accuracy (0\.9|1\.0)",
    "docs/howto/ddp.md": r"loss 0\.0",
    "docs/howto/gpus.md": r"rank \d: loss 0\.0",
    "docs/tutorials/script.md": r"node \d of \d: test loss 0\.0",
}
"""What the nodes of a page's torchrun must print, besides succeeding."""


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


TUTORIALS = [page for page in PAGES if page.parent.name == "tutorials" and blocks_of(page)]
DATA = ("bibtex", "text")
"""Languages of what is not run."""


def of_language(language: str) -> list[object]:
    """The blocks that are to be run by themselves, as parameters of a test."""
    chosen = [b for b in BLOCKS if b.language == language and not b.not_run and not b.file]
    chosen = [b for b in chosen if not b.page.startswith("docs/tutorials/")]
    assert chosen
    return [pytest.param(b, id=f"{b.page}-{n}") for n, b in enumerate(chosen)]


def test_blocks_are_run_or_say_why_not():
    excepted: dict[str, list[str]] = {}
    for block in BLOCKS:
        known = block.language in ("sh", "console", "python", *DATA) or block.file or block.not_run
        assert known, f"{block.page}: a block of {block.language or 'no language'}: {block.text}"
        if block.not_run:
            excepted.setdefault(block.page, []).append(block.not_run)
    assert excepted == NOT_RUN
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert text.count("```") == 2 * (len(BLOCKS) + text.count("```{"))


def test_what_is_changed_is_there_to_be_changed():
    shown = "".join(block.text for block in BLOCKS if not block.not_run)
    assert [text for text in SMALLER if text not in shown] == []
    assert PRINTED.keys() <= {block.page for block in BLOCKS}


def smaller(text: str) -> str:
    for shown, run in SMALLER.items():
        text = text.replace(shown, run)
    return text


def basegraph(words: list[str]) -> str:
    """What the command line prints, in this process; nodes that it launches are forks."""
    with (
        redirect_stdout(StringIO()) as printed,
        patch.object(launcher, "subprocess", Mock(Popen=fork_of)),
        pytest.raises(SystemExit) as left,
    ):
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


def write_files(page: str) -> None:
    """Write the files that a page shows."""
    for block in BLOCKS:
        if block.page == page and block.file:
            Path(block.file).write_text(smaller(block.text), encoding="utf-8")


def run_commands(block: Block) -> None:
    """Run the lines of a block in this folder."""
    for line in block.text.replace("\\\n", "").splitlines():
        words: list[str] = []
        for word in shlex.split(smaller(line), comments=True):
            words += sorted(map(str, Path().glob(word))) if "*" in word else [word]
        program, *arguments = words
        if program == "torchrun":
            assert re.search(PRINTED.get(block.page, ""), torchrun(arguments)), line
        else:
            assert program == "basegraph", line
            basegraph(arguments)


def run_python(block: Block, names: dict[str, object]) -> None:
    """Run a block, which must print what its comments say."""
    promised = re.findall(r"# > (.*)", block.text)
    assert promised
    with redirect_stdout(StringIO()) as printed:
        exec(compile(smaller(block.text), block.page, "exec"), names)
    assert printed.getvalue().splitlines() == promised


@pytest.mark.parametrize("block", of_language("sh"))
def test_commands_succeed(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(block.page)
    run_commands(block)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorials_run_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page):
        write_files(block.page)
        if block.not_run or block.file:
            continue
        if block.language == "python":
            run_python(block, names)
        else:
            run_commands(block)


def test_what_a_diff_changes_is_python():
    diffs = [(page, text) for page in PAGES for text in DIFF.findall(page.read_text("utf-8"))]
    assert diffs
    for page, text in diffs:
        before, after = changed(text)
        assert before != after
        compile(before, page.name, "exec")


DIFF = re.compile(r"^```diff\n((?:.*\n)*?)^```$", flags=re.MULTILINE)


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
    run_python(block, {"__name__": "__main__"})


def test_user_code_passes_mypy_strict(tmp_path):
    complete: dict[str, str] = {}
    for number, block in enumerate(b for b in BLOCKS if b.is_python and not b.not_run):
        together = block.page.startswith("docs/tutorials/") and not block.file
        name = re.sub(r"\W", "_", block.page) + ("" if together else f"_{number}")
        complete[name] = complete.get(name, "") + block.text
    assert len(complete) > 5
    for name, text in complete.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(user_configuration(complete), encoding="utf-8")
    # In the folder and with the cache of `make test`, which has read torch and this package.
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", tmp_path / "mypy.ini", tmp_path],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": "src"},
    )
    *errors, summary = checked.stdout.splitlines()
    assert f"{len(complete)} source files" in summary, checked
    assert [line for line in errors if not line.endswith(TORCH_IS_TO_BLAME)] == []


TORCH_IS_TO_BLAME = (
    'Call to untyped function "backward" in typed context  [no-untyped-call]',
    'Module "torch.distributed" does not explicitly export attribute "TCPStore"  [attr-defined]',
)


def user_configuration(modules: Iterable[str]) -> str:
    """Strict for these modules; for all others as in pyproject.toml, so that its cache is used."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    sections = {"mypy": {k: v for k, v in project.items() if k not in ("files", "overrides")}}
    for override in project["overrides"]:
        options = {name: value for name, value in override.items() if name != "module"}
        sections |= {f"mypy-{module}": options for module in override["module"]}
    assert sections["mypy"]["strict"]
    sections |= {f"mypy-{module}": {"warn_return_any": True} for module in modules}
    return "".join(
        f"[{name}]\n" + "".join(f"{option} = {value}\n" for option, value in options.items())
        for name, options in sections.items()
    )


def test_the_package_says_that_it_is_typed():
    assert (Path(bg.__file__).parent / "py.typed").is_file()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "py.typed" in project["tool"]["setuptools"]["package-data"]["basegraph"]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_files_and_names_that_pages_mention_exist(page):
    text = page.read_text(encoding="utf-8")
    folders = ("src", "tests", "scripts", "benchmarks", "examples", "docs")
    files = [f"/{path.as_posix()}" for folder in folders for path in (ROOT / folder).rglob("*.py")]
    for name in re.findall(r"`(?:python )?([\w/]+\.py)\b", text):
        if name not in ("train.py", "live.py") and not name.endswith("NAME.py"):
            assert any(file.endswith(f"/{name}") for file in files), name
    for dotted in re.findall(r"`(?:basegraph|bg)\.([\w.]+)", text):
        assert pydoc.locate(f"basegraph.{dotted}") is not None, dotted


def test_every_error_has_a_row_that_says_what_to_do():
    sources = (ROOT / "src" / "basegraph").rglob("*.py")
    parents = dict(
        found
        for path in sources
        for found in re.findall(r"^class (\w+)\((\w+)", path.read_text(encoding="utf-8"), re.M)
    )

    def is_ours(name: str) -> bool:
        return name == "BasegraphError" or (name in parents and is_ours(parents[name]))

    errors = {name for name, parent in parents.items() if is_ours(parent)}
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)
    listed = {name.removeprefix("bg.") for row in rows for name in re.findall(r"`(.*?)`", row)}
    assert errors - {"RuntimeFailure"} == listed
    public = {name for name in listed if hasattr(bg, name)}
    assert public == {name for name in listed if f"`bg.{name}`" in page}
