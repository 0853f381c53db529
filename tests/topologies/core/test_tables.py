"""Tables of searched parameters: described, complete, written as they are read."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from basegraph.topologies.core.tables import TableFormat, load_table, read_table, write_table

TABLES = [
    ("basegraph.topologies.short", "laid_mixes.json"),
    ("basegraph.topologies.steady", "mirrors.json"),
    ("basegraph.topologies.steady", "mixes.json"),
]


@pytest.mark.parametrize(("package", "name"), TABLES)
def test_every_field_is_described(package, name):
    text = resources.files(package).joinpath(name).read_text(encoding="utf-8")
    described = TableFormat(**json.loads(text)["format"])
    assert all(
        entry.keys() == described.fields.keys() for entry in load_table(package, name).values()
    )
    assert described.command.startswith("python scripts/search_")
    assert described.about.endswith(".")


@pytest.mark.parametrize(("package", "name"), TABLES)
def test_what_is_written_is_what_is_installed(package, name, tmp_path):
    text = resources.files(package).joinpath(name).read_text(encoding="utf-8")
    entries = load_table(package, name)
    write_table(tmp_path / name, TableFormat(**json.loads(text)["format"]), entries)
    assert (tmp_path / name).read_text(encoding="utf-8") == text
    assert read_table(tmp_path / name) == entries
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_no_file_is_an_empty_table(tmp_path):
    assert read_table(tmp_path / "none.json") == {}
