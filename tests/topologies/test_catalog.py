from __future__ import annotations

import pytest

import basegraph as bg
from basegraph.topologies.catalog import parse_spec

NAMES = {
    "base",
    "simple-base",
    "hyper-hypercube",
    "one-peer-hypercube",
    "one-peer-exponential",
    "exponential",
    "ring",
    "torus",
    "complete",
    "euclid",
    "block-mix",
    "block-merge",
    "short",
    "steady",
    "d-equistatic",
    "u-equistatic",
    "one-peer-d-equidyn",
    "one-peer-u-equidyn",
}


def test_every_promised_name_is_there():
    assert set(bg.TOPOLOGIES) >= NAMES


def test_a_spec_and_keywords_are_the_same():
    spec = bg.topology("base:k=2,redundant=false", n=13)
    keywords = bg.topology("base", n=13, k=2, redundant=False)
    assert spec.spec == keywords.spec == "base:k=2,redundant=false"
    assert list(spec) == list(keywords)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("bas", "topology='bas': did you mean 'base'"),
        ("one-peer-exponetial", "did you mean 'one-peer-exponential'"),
        ("", "topology='': not known. Known: base, block-merge"),
        (3, "topology='3': not known"),
        ("base:2", "options are written name:option=value"),
        ("base:k=1,k=2", "gives k twice"),
        ("base:q=1", "option of base='q'"),
        ("base:k=two", "k='two': must be an integer ≥ 1"),
        ("base:k=", "k='': must be an integer ≥ 1"),
        ("base:redundant=1", "redundant=1: must be True or False"),
        ("base:isolated=middle", "isolated='middle': must be one of first, last"),
        ("ring:k=1", "option of ring='k': not known. Known: none"),
    ],
)
def test_bad_specs(spec, complaint):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        bg.topology(spec, n=5)


def test_an_option_given_twice_is_refused():
    with pytest.raises(bg.InvalidArgument, match="k=2: is given in the spec 'base:k=1' already"):
        bg.topology("base:k=1", n=5, k=2)


def test_rounds_too_large_for_any_machine_are_refused():
    with pytest.raises(
        bg.InvalidArgument, match="n=1000000: a round of complete has 999999000000 arcs"
    ):
        bg.topology("complete", n=10**6).round(0)


@pytest.mark.parametrize("name", ["complete", "base"])
def test_nothing_is_made_before_it_is_refused(name):
    """What would fill the memory of any machine ends at once, naming the n that was asked for."""
    n = 10**15
    with pytest.raises(bg.InvalidArgument, match=f"n={n}: .*more than this machine's memory"):
        bg.topology(name, n=n).round(0)


def test_torus_of_a_large_prime_is_found_at_once():
    n = 10**12 + 39
    assert bg.topology("torus", n=n).neighbors(0, 0).keys() == {1, n - 1}
    assert bg.topology("torus", n=10**12).neighbors(0, 0).keys() == {
        1,
        10**6 - 1,
        10**6,
        10**12 - 10**6,
    }


def test_parse_spec():
    assert parse_spec("one-peer-u-equidyn:seed=3,eta=1/3") == (
        "one-peer-u-equidyn",
        {"seed": 3, "eta": "1/3"},
    )
