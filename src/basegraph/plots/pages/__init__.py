"""Pages: one self-contained HTML file each, put together from files of the package.

`write_html` takes a page's template, styles and scripts from the folder of its package, adds what
all pages share (`theme.css`, `svg.js`) and the values that its scripts read, and writes one file
that asks no network for anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from basegraph.storage.files import replacing

SHARED_STYLES = ("theme.css",)
SHARED_SCRIPTS = ("svg.js",)


def write_html(
    path: Path,
    package: str,
    *,
    scripts: tuple[str, ...],
    values: Mapping[str, object],
    parts: Mapping[str, str] | None = None,
) -> None:
    """Write a page: `page.html` of a package with `style.css`, the scripts and values filled in.

    Args:
        path: The file to write, which is replaced whole.
        package: The name of the package whose files these are.
        scripts: Names of its scripts, in the order in which they are put into the page.
        values: What the scripts read, as constants by name: anything that JSON can hold.
        parts: HTML by name, put in place of `<!-- NAME -->`.

    """
    own, shared = files(package), files(__name__)
    constants = [f"const {name} = {literal(value)};" for name, value in values.items()]
    texts = [*constants]
    texts += [(shared / name).read_text(encoding="utf-8") for name in SHARED_SCRIPTS]
    texts += [(own / name).read_text(encoding="utf-8") for name in scripts]
    styles = [(shared / name).read_text(encoding="utf-8") for name in SHARED_STYLES]
    styles.append((own / "style.css").read_text(encoding="utf-8"))
    page = (own / "page.html").read_text(encoding="utf-8")
    for name, part in (parts or {}).items():
        page = page.replace(f"<!-- {name} -->", part)
    page = page.replace("/* STYLE */", "\n".join(styles))
    page = page.replace("/* SCRIPT */", "\n".join(texts))
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def literal(value: object) -> str:
    r"""A value in a script inside HTML: nothing in it can end the script.

    >>> print(literal({"name": "</script>"}))
    {"name": "\u003c/script\u003e"}
    """
    text = json.dumps(value)
    for sign in "<>&":  # which JSON has within strings only
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
