"""Catalogue entries: the same for topologies and for methods."""

from __future__ import annotations

import pytest

import basegraph as bg
from basegraph.specs import Entry, catalog, parse


def build(n, share=0.5, flag=False, word="first", *, internal=None):
    """What is built.

    More about it.
    """
    return n, share, flag, word, internal


def test_an_entry_knows_its_options():
    entry = Entry("thing", build, arguments=("n",))
    assert entry.description == "What is built."
    assert entry.options == {"share": 0.5, "flag": False, "word": "first"}
    assert entry(3, flag=True) == entry(n=3, flag=True) == (3, 0.5, True, "first", None)
    for option in ("internal", "sahre"):
        with pytest.raises(bg.InvalidArgument, match=f"option of thing='{option}'"):
            entry(3, **{option: 1})


def test_types_are_checked_where_the_builder_does_not():
    typed, free = (catalog({"thing": build}, arguments=("n",), typed=t)["thing"] for t in (1, 0))
    for option, value in (("share", "much"), ("share", True), ("flag", 1)):
        with pytest.raises(bg.InvalidArgument, match=f"{option}=.*must be"):
            typed(3, **{option: value})
        assert free(3, **{option: value})
    assert typed(3, share=1, word=5)[1::2] == (1, 5)


def test_specs_are_parsed_by_the_types_of_the_defaults():
    entries = catalog({"thing": build}, arguments=("n",))
    written = parse("argument", "thing:share=1,flag=true,word=7", entries)
    assert written == ("thing", {"share": 1.0, "flag": True, "word": 7})
    assert parse("argument", "thing:home=true", entries, common=("home",))[1] == {"home": True}
    with pytest.raises(bg.InvalidArgument, match="option of thing='home'"):
        parse("argument", "thing:home=true", entries)
    with pytest.raises(bg.InvalidArgument, match="argument='thong': did you mean 'thing'"):
        parse("argument", "thong", entries)
