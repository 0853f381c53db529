"""Pages made from the code: the text of a page may contain these comments.

- `<!-- generated: names NAME NAME ... -->`: public names of `basegraph`, from their docstrings.
- `<!-- generated: package basegraph.PACKAGE -->`: a package and those below it: what its docstring
  says and the names that it exports. A name that `basegraph` exports, too, is a link.
- `<!-- generated: commands -->`: every command, from its own help.

The comments are replaced by Markdown before a page is parsed.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from commands import command_reference
from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.ext.napoleon import GoogleDocstring
from sphinx.util.docutils import SphinxRole

import basegraph

COMMENT = re.compile(r"^<!-- generated: (names|package|commands) ?(.*?) -->$", flags=re.MULTILINE)


def expand(app: Sphinx, _: str, source: list[str]) -> None:
    """Replace the comments of a page, which is then to be read again when the code changes."""
    text = COMMENT.sub(lambda found: WRITERS[found[1]](found[2]), source[0])
    if text != source[0]:
        source[0] = text
        for path in Path(basegraph.__file__).parent.rglob("*.py"):
            app.env.note_dependency(path)


def names(words: str) -> str:
    """Write the documentation of public names of `basegraph`."""
    return entries("basegraph", words.split())


def package(name: str) -> str:
    """Write the documentation of a package and of the packages below it."""
    parts = [one_package(name, 2)]
    parts += [one_package(below, 2) for below in packages_below(name)]
    return "\n\n".join(parts)


def one_package(name: str, level: int) -> str:
    """Write a package's docstring and what it exports."""
    module = import_module(name)
    prose = rst(f".. automodule:: {name}\n   :no-members:")
    text = f"{'#' * level} `{name}`\n\n{prose}"
    homes = {exported: home(name, exported) for exported in exports(module)}
    own = [exported for exported, documented in homes.items() if documented == name]
    links = [f"{{py:obj}}`{h}.{exported}`" for exported, h in homes.items() if h != name]
    if links:
        text += f"\n\nExports {', '.join(links)}{', and' if own else '.'}"
    return f"{text}\n\n{entries(name, own)}"


def packages_below(name: str) -> list[str]:
    """Every public package inside a package."""
    module = import_module(name)
    found = pkgutil.walk_packages(module.__path__, f"{name}.")
    return [entry.name for entry in found if entry.ispkg]


def exports(module: ModuleType) -> list[str]:
    """The names that a package exports, other packages left out."""
    listed = getattr(module, "__all__", [])
    return [name for name in listed if not inspect.ismodule(public(module, name))]


def public(module: ModuleType, name: str) -> object:
    """What a package exports by this name; None if it needs an extra that is not installed."""
    try:
        return getattr(module, name)
    except ImportError:
        return None


def home(package: str, name: str) -> str:
    """The outermost package that exports this object by the same name: it is documented there."""
    thing = public(import_module(package), name)
    outermost = package
    while package:
        package = package.rpartition(".")[0]
        if package and name in exports(module := import_module(package)):
            outermost = package if public(module, name) is thing else outermost
    return outermost


def entries(module: str, chosen: list[str]) -> str:
    """Write autodoc's directives for the names of a module."""
    return "\n\n".join(rst(entry(module, name)) for name in chosen)


def entry(module: str, name: str) -> str:
    """Choose the directive for one name."""
    thing = public(import_module(module), name)
    if thing is None:
        return unimported(module, name)
    if inspect.isclass(thing):
        kind = "exception" if issubclass(thing, BaseException) else "class"
        return f".. auto{kind}:: {module}.{name}\n   :members:\n   :inherited-members: {FOREIGN}"
    if inspect.isroutine(thing):
        return f".. autofunction:: {module}.{name}"
    return f".. py:data:: {name}\n   :module: {module}\n\n{data_docstring(module, name)}"


def unimported(package: str, name: str) -> str:
    """Document what cannot be imported here, from its source."""
    for statement in ast.walk(source(package)):
        if isinstance(statement, ast.ImportFrom) and name in [a.name for a in statement.names]:
            for found in ast.walk(source(statement.module or "")):
                if isinstance(found, ast.ClassDef | ast.FunctionDef) and found.name == name:
                    kind = "class" if isinstance(found, ast.ClassDef) else "function"
                    text = str(GoogleDocstring(ast.get_docstring(found) or ""))
                    lines = "\n".join(f"   {line}" for line in text.splitlines())
                    return f".. py:{kind}:: {name}\n   :module: {package}\n\n{lines}"
    raise LookupError(f"{package}.{name}")


def source(module: str) -> ast.Module:
    """The code of a module, which is not imported."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


FOREIGN = "Optimizer, Module, tuple, dict, int, Exception, Protocol, Generic"
"""Bases whose members are documented elsewhere."""


def data_docstring(module: str, name: str) -> str:
    """Find the string below the assignment of a constant, in the module that assigns it."""
    value = getattr(import_module(module), name)
    assigned = re.compile(rf'^{name}\b[^\n]*=.*?\n"""(.*?)"""', flags=re.MULTILINE | re.DOTALL)
    homes = [loaded for key, loaded in sys.modules.items() if key.startswith("basegraph")]
    for loaded in [one for one in homes if vars(one).get(name) is value]:
        found = assigned.search(inspect.getsource(loaded))
        if found:
            return "\n".join(f"   {line}" for line in found[1].strip().splitlines())
    return f"   A {type(value).__name__}."


def rst(text: str) -> str:
    """Wrap reStructuredText for a Markdown page."""
    return f"```{{eval-rst}}\n{text}\n```"


WRITERS = {"names": names, "package": package, "commands": command_reference}


class Name(SphinxRole):
    """A word in backticks in a docstring: code, and a link if `basegraph` exports it."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Make the node."""
        shown = nodes.literal(self.text, self.text, classes=["py", "docutils"])
        public = self.text.removeprefix("bg.").partition("(")[0]
        if public not in basegraph.__all__:
            return [shown], []
        target = {"refdomain": "py", "reftype": "obj", "reftarget": f"basegraph.{public}"}
        return [pending_xref("", shown, refdoc=self.env.docname, **target)], []


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions above."""
    app.add_role("name", Name())
    app.connect("source-read", expand)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
