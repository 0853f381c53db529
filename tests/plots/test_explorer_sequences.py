"""The sequences that the interactive page computes: those of the library, arc for arc."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

import basegraph as bg
from basegraph.plots.colors import look
from basegraph.plots.explorer.packing import ALL_UP_TO, CHOSEN, PACKED_SPECS
from basegraph.topologies.analysis.network import cost
from basegraph.topologies.short._euclid import factors as library_factors
from basegraph.topologies.short._euclid import mirrors as library_mirrors
from support.browser import needs_browser


def library_rounds(spec: str, n: int, steps: int) -> list[list[list[object]]]:
    t = bg.topology(spec, n=n)
    rounds = []
    for step in range(t.period or steps):
        r = t.round(step)
        r = r.messages() if spec == "ceca" else r
        weights = map(Fraction, r.numerators.tolist(), r.denominators.tolist())
        labels = [bg.Origin(o).label for o in r.origins]
        ends = zip(r.receivers.tolist(), r.senders.tolist(), weights, labels, strict=True)
        rounds.append(sorted([i, j, w.numerator, w.denominator, o] for i, j, w, o in ends))
    return rounds


SPECS = [
    *[f"{name}:k={k}" for name in ("base", "simple-base") for k in (1, 2, 3, 5, 8)],
    *[f"hyper-hypercube:k={k}" for k in (1, 2, 6)],
    *[
        "euclid",
        "one-peer-hypercube",
        "one-peer-exponential",
        "exponential",
        "ring",
        "torus",
        "complete",
    ],
    "ceca",
    *["d-equistatic:degree=3,seed=2", "u-equistatic:degree=2,seed=0"],
    *["one-peer-d-equidyn:seed=4", "one-peer-u-equidyn:seed=4"],
]


SIZES = [*range(1, 34), 81, 125, 127]
MORE_SIZES = [*range(34, 42), 120, 211, 256, 300]


@needs_browser
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(SIZES, id="to-127"),
        pytest.param(MORE_SIZES, id="to-300", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("spec", SPECS)
def test_computes_the_library_s_sequences_arc_for_arc(functions, spec, sizes):
    expected = {}
    for n in sizes:
        try:
            rounds = library_rounds(spec, n, steps=5)
        except bg.InvalidArgument:
            with pytest.raises(Exception, match="n must"):
                functions.evaluate("([spec, n]) => topology(spec, n).period", [spec, n])
            continue
        expected[n] = (bg.topology(spec, n=n).symmetric, rounds)
    shown = functions.evaluate(
        """([spec, sizes]) => sizes.map((n) => {
          const t = topology(spec, n);
          const rounds = Array.from({ length: t.period || 5 }, (_, step) => t.round(step));
          return JSON.stringify([t.symmetric, rounds]);
        })""",
        [spec, list(expected)],
    )
    for n, text in zip(expected, shown, strict=True):
        symmetric, rounds = json.loads(text)
        assert (symmetric, [sorted(round_) for round_ in rounds]) == expected[n], (spec, n)
    assert len(expected) >= (6 if sizes is SIZES else 1)


@needs_browser
def test_every_euclid_that_fits_the_page_is_the_library_s(functions):
    """The choice of factors and splits, for every n."""
    shown = functions.evaluate(
        "Array.from({ length: 300 }, (_, i) => i + 1).map((n) => [euclidFactors(n), mirrors(n)])"
    )
    for n, (factors, mirrors) in enumerate(shown, start=1):
        assert tuple(factors) == library_factors(n)
        exact = tuple((shift % n, Fraction(a, b)) for shift, a, b in mirrors)
        assert exact == library_mirrors(n), n


@needs_browser
def test_two_vectors_per_node_are_the_library_s(functions):
    for n in (1, 2, 5, 25, 37):
        t = bg.topology("ceca", n=n)
        shown = functions.evaluate(
            """(n) => {
              const t = topology("ceca", n);
              const weights = Array.from({ length: t.period }, (_, step) => t.second(step));
              const x0 = Array.from({ length: n }, (_, i) => i * i);
              return { weights, errors: gossip(t, x0, t.period + 2).errors };
            }""",
            n,
        )
        heard = [h for step in range(t.period) for h in t.neighbors(0, step).values()]
        if n > 1:
            assert [(s["sent"], Fraction(*s["weight"])) for s in shown["weights"]] == [
                (h.vector, h.y) for h in heard
            ]
        errors = bg.consensus_error(t, np.arange(n) ** 2.0, t.period + 2)
        assert np.allclose(shown["errors"], errors, atol=1e-9)


@needs_browser
def test_every_origin_has_a_color(functions):
    known = functions.evaluate("Object.keys(ORIGIN_COLORS)")
    assert set(known) == {origin.label for origin in bg.Origin}


@needs_browser
def test_knows_the_whole_catalogue(functions):
    assert sorted(functions.evaluate("Object.keys(CATALOGUE)")) == sorted(bg.TOPOLOGIES)


PACKED_SIZES = [1, 2, 3, 5, 7, 12, 25, 33, ALL_UP_TO, CHOSEN[4]]


@needs_browser
@pytest.mark.parametrize("spec", PACKED_SPECS)
def test_what_is_packed_is_the_library_s_arc_for_arc(functions, spec):
    shown = functions.evaluate(
        """([spec, sizes]) => sizes.map((n) => {
          if (refusal(spec, n)) return refusal(spec, n);
          const t = topology(spec, n);
          return JSON.stringify(Array.from({ length: t.period }, (_, step) => t.round(step)));
        })""",
        [spec, PACKED_SIZES],
    )
    for n, text in zip(PACKED_SIZES, shown, strict=True):
        try:
            expected = library_rounds(spec, n, steps=0)
        except bg.InvalidArgument:
            assert "this page has other numbers of nodes" in text
            continue
        assert [sorted(round_) for round_ in json.loads(text)] == expected, (spec, n)


COSTS = ["base:k=1", "base:k=3", "ring", "exponential", "ceca", "short:k=2", "steady"]


@needs_browser
@pytest.mark.parametrize("n", [2, 5, 25, 64])
def test_costs_are_the_library_s(functions, n):
    shown = functions.evaluate(
        """([specs, n]) => {
          const network = { bandwidth: 25e6, latency: 5e-3 };
          const costs = specs.map((spec) => {
            const t = topology(spec, n);
            const { errors } = gossip(t, gaussianStart(n, 0), t.period);
            return costOf(t, exactAt(errors) >= 0, 36924456, network);
          });
          const all = ALL_REDUCES.map((name) => allReduceCost(name, n, 36924456, network));
          return [...costs, ...all];
        }""",
        [COSTS, n],
    )
    network = bg.analysis.Network(bandwidth=25e6, latency=5e-3)
    for name, ours in zip([*COSTS, "all-reduce", "all-reduce-halving"], shown, strict=True):
        known = cost(name, n, 36924456, network)
        assert ours["rounds"] == known.rounds, name
        assert ours["bytesPerStep"] == pytest.approx(known.bytes_per_step), name
        assert ours["secondsPerStep"] == pytest.approx(known.seconds_per_step), name
        assert ours["bytesToAverage"] == pytest.approx(known.bytes_to_average), name
        assert ours["secondsToAverage"] == pytest.approx(known.seconds_to_average), name


@needs_browser
def test_looks_are_those_of_all_figures(functions):
    specs = [*SPECS, *PACKED_SPECS, "base", "base:k=9", "short:k=7", "all-reduce", "nonesuch"]
    shown = functions.evaluate("(specs) => specs.map(lookOf)", specs)
    for spec, ours in zip(specs, shown, strict=True):
        known = look(spec)
        assert (ours["light"], ours["dark"]) == (known.color, known.dark), spec
        assert tuple(map(float, ours["dashes"])) == known.dashes, spec
