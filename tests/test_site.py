"""The documentation site: it builds without warnings, nothing is missing, links lead somewhere."""

from __future__ import annotations

import posixpath
import re
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from urllib.parse import unquote, urlsplit

import pytest
import typer

import basegraph as bg
from basegraph.cli.app import app
from support.browser import CHROMIUM, FLAGS, needs_browser
from support.forks import run_python
from support.pages import PAGES, ROOT

pytest.importorskip("furo")
pytest.importorskip("myst_parser")
InventoryFile = pytest.importorskip("sphinx.util.inventory").InventoryFile


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = ["-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    built = run_python(*command, ROOT / "docs", folder)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Page]:
    """Every page of the site."""
    return {path: Page(path) for path in site.rglob("*.html")}


class Page(HTMLParser):
    """What a page links to, what it loads, and what can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)
                self.loaded += [value] if tag in ("img", "link", "script") else []


def test_links_within_the_site_lead_somewhere(pages):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else set()
            anchor = unquote(parts.fragment)
            if not target.is_file() or (anchor and target in pages and anchor not in anchors):
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_pages_open_from_disk_without_a_network(pages):
    for path, page in pages.items():
        assert [link for link in page.loaded if urlsplit(link).scheme] == [], path


@needs_browser
def test_pages_fit_a_phone_and_the_search_finds(site, pages):
    playwright = pytest.importorskip("playwright.sync_api")
    problems: list[str] = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.set_default_timeout(0)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        for path in sorted(pages):
            page.goto(path.as_uri())
            width = page.evaluate("document.documentElement.scrollWidth")
            problems += [f"{path.name} is {width} wide"] if width > 390 else []
        page.goto((site / "search.html").as_uri() + "?q=consensus")
        page.wait_for_selector("#search-results li a")
        browser.close()
    assert problems == []


def test_every_public_name_is_documented(site):
    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", posixpath.join)
    documented = {name for kind in inventory.values() for name in kind}
    missing = [
        f"{package}.{name}"
        for package in ["basegraph", *PACKAGES]
        for name in getattr(import_module(package), "__all__", [])
        if not documented & {f"{home}.{name}" for home in with_parents(package)}
    ]
    assert missing == ["basegraph.analysis"]  # a package


PACKAGES = [
    entry.name
    for entry in walk_packages(bg.__path__, "basegraph.")
    if entry.ispkg and entry.name not in ("basegraph.cli", "basegraph.plots.explorer")
]
"""All packages, apart from the commands, which have a page of their own, and a page's script."""


def with_parents(package: str) -> list[str]:
    """A package and those that it is in: what they export, too, is documented there."""
    parts = package.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]


def test_every_command_is_documented(site):
    text = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'<section id="(basegraph-[\w-]+)"', text))
    assert shown == set(commands("basegraph", typer.main.get_command(app)))


def commands(name: str, command: object) -> list[str]:
    """The commands below this one, by the names of their sections."""
    below = getattr(command, "commands", None)
    if below is None:
        return [name]
    return [leaf for word, one in below.items() for leaf in commands(f"{name}-{word}", one)]


def test_the_index_for_language_models_has_every_page(site):
    text = (site / "llms.txt").read_text(encoding="utf-8")
    for page in PAGES:
        folder = page.parent.relative_to(ROOT).parts
        if folder[:1] == ("docs",) and len(folder) == 2 and page.stem != "index":
            assert f"({folder[1]}/{page.stem}.html)" in text


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made of their text."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_the_repository_s_pages_lead_somewhere(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        if not link.startswith("http"):
            target = ROOT / (path or name)
            assert target.exists(), link
            assert not anchor or anchor in anchors_of(target), link
