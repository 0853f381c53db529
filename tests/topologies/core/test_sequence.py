"""Sequences as users expect them: slices, equality, display."""

from __future__ import annotations

import builtins
import pickle
from fractions import Fraction
from xml.etree import ElementTree

import networkx as nx
import pytest

import basegraph as bg

HALF = Fraction(1, 2)


def test_a_slice_is_the_sequence_of_these_rounds():
    t = bg.topology("base", n=25)
    for part in (slice(0, 2), slice(None), slice(-3, None), slice(None, None, 2), slice(5, 1, -1)):
        assert list(t[part]) == list(t)[part]
        assert (t[part].n, t[part].promised_degree) == (25, 1)
    assert t[0:2].spec == "base:k=1[0:2]"
    assert t[::2].spec == "base:k=1[::2]"
    assert bg.verify(t[:]).method == "exact"
    with pytest.raises(bg.NotFiniteTime):
        bg.verify(t[:-1])
    with pytest.raises(bg.InvalidArgument, match="must be one or more rounds"):
        t[3:3]
    with pytest.raises(IndexError):
        t[9]
    assert pickle.loads(pickle.dumps(t[0:2])) == t[0:2]


def test_sequences_of_the_same_rounds_are_equal():
    hypercube = bg.topology("one-peer-hypercube", n=8)
    base = bg.topology("base", n=8)
    assert base == hypercube == bg.Sequence(list(base), "my own")
    assert hash(base) == hash(hypercube)
    assert {base, hypercube, base[:]} == {base}
    assert base != bg.topology("base", n=9)
    assert base != base[:2]
    assert base != base[::-1]
    assert base[:1] != bg.Sequence([bg.Round.from_edges(8, {(0, 1): HALF})])
    assert base != "base"


def test_random_topologies_are_equal_by_spec_and_n():
    one = bg.topology("one-peer-d-equidyn:seed=3", n=8)
    assert one == bg.topology("one-peer-d-equidyn", n=8, seed=3)
    assert hash(one) == hash(bg.topology("one-peer-d-equidyn", n=8, seed=3))
    assert one != bg.topology("one-peer-d-equidyn:seed=4", n=8)
    assert one != bg.topology("one-peer-d-equidyn:seed=3", n=9)


def test_rounds_are_equal_if_their_matrices_are():
    one = bg.Round(3, [0, 1], [1, 0], [1, 1], [2, 2])
    two = bg.Round(3, [1, 0], [0, 1], [2, 4], [4, 8])
    assert one == two
    assert hash(one) == hash(two)
    others = [
        bg.Round(4, [0, 1], [1, 0], [1, 1], [2, 2]),
        bg.Round(3, [0, 2], [2, 0], [1, 1], [2, 2]),
        bg.Round(3, [0, 1], [1, 0], [1, 1], [3, 3]),
        bg.Round(3, [0], [1], [1], [2]),
    ]
    assert all(one != other for other in others)
    assert len({one, two, *others}) == 5


def drawings(shown):
    return list(ElementTree.fromstring(shown).iter("{http://www.w3.org/2000/svg}svg"))


def test_notebooks_draw_a_few_rounds():
    for t in (bg.topology("base", n=6), bg.topology("exponential", n=11)):
        pictures = drawings(t._repr_html_())
        assert len(pictures) == t.period
        lines = [p.findall("{http://www.w3.org/2000/svg}line") for p in pictures]
        expected = [len(r.receivers) // (2 if t.symmetric else 1) for r in t]
        assert [len(line) for line in lines] == expected
        assert drawings(t[0]._repr_html_())
    assert "0 ↔ 1: 1/2" in bg.topology("base", n=6)._repr_html_()
    assert "0 → 1: 1/5" in bg.topology("exponential", n=11)._repr_html_()
    assert len(drawings(bg.topology("one-peer-u-equidyn", n=9)._repr_html_())) == 1


def test_notebooks_are_spared_what_is_too_much():
    assert not drawings(bg.topology("base", n=10**9)._repr_html_())
    assert not drawings(bg.topology("complete", n=100)[0]._repr_html_())
    long = bg.topology("base", n=6)
    shown = bg.Sequence(list(long) * 10)._repr_html_()
    assert len(drawings(shown)) == 12
    assert "the first 12 of 40 rounds" in shown
    assert not drawings(bg.topology("complete", n=64)._repr_html_())


def test_notebooks_get_no_markup_from_names():
    graph = bg.from_networkx(nx.path_graph(3), spec="<script>alert(1)</script>")
    assert "<script>" not in graph._repr_html_()
    assert "&lt;script&gt;" in graph._repr_html_()


def test_figures(tmp_path):
    t = bg.topology("base", n=6)
    assert len(t.draw().axes) == t.period
    for name in ("rounds.svg", "rounds.png"):
        t.draw(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    t[0].draw(str(tmp_path / "round.svg"))
    assert (tmp_path / "round.svg").read_text().startswith("<?xml")
    assert len(bg.topology("one-peer-d-equidyn", n=5).draw(steps=3).axes) == 3
    with pytest.raises(bg.InvalidArgument, match="must end in"):
        t.draw(tmp_path / "rounds.txt")
    with pytest.raises(bg.InvalidArgument, match="at most 128 nodes can be drawn"):
        bg.topology("base", n=129).draw()


def test_without_matplotlib_the_pip_command_is_named(monkeypatch):
    original = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("basegraph.plots"):
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(bg.BasegraphError, match=r"pip install 'basegraph\[plots\]'"):
        bg.topology("base", n=6).draw()
