"""Verdicts on the paper's claims: from differences within seeds, and from what was lost."""

from __future__ import annotations

from basegraph.experiments.claims import judged
from basegraph.experiments.figures import EXISTING, FIGURES
from basegraph.experiments.learning import Cell

PANEL = (0.1, 25, "dsgdm")


def ends(**accuracies):
    """Curves of one panel: a list of final accuracies for every topology, seed by seed."""
    return {
        Cell(0.1, 25, "dsgdm", spec.replace("__", ":k=").replace("_", "-")): {
            seed: [{"test_accuracy": share}] for seed, share in enumerate(shares)
        }
        for spec, shares in accuracies.items()
    }


def rows_of(figure, curves, lost=None, panels=(PANEL,), cells=None, seeds=(0, 1, 2)):
    """The rows of a figure that consists of these cells, or of those that there are."""
    lost = lost or {}
    return judged(figure, panels, cells or [*curves, *lost], seeds, curves, lost)


def verdicts(figure, curves, lost=None):
    return {row["the paper"]: row["verdict"] for row in rows_of(figure, curves, lost)}


def test_claims_are_judged_by_differences_within_seeds():
    """Seeds differ by ten points, topologies within a seed by one or nothing."""
    seeds = [0.5, 0.6, 0.7]
    ahead = [s + 0.01 + 0.0002 * i for i, s in enumerate(seeds)]
    alike = [s + 0.0001 * i for i, s in enumerate(seeds)]
    above = "Base-2 is above the one-peer exponential graph"
    same = "Base-2 is comparable to the exponential graph"
    denser = "Base-3, 4 and 5 are above both exponential graphs"
    found = verdicts("nodes", ends(base__1=ahead, one_peer_exponential=seeds, exponential=alike))
    assert found == {above: "confirmed", same: "refuted", denser: "open"}
    found = verdicts("nodes", ends(base__1=seeds, one_peer_exponential=ahead, exponential=alike))
    assert found == {above: "refuted", same: "confirmed", denser: "open"}
    cell = next(c for c in ends(one_peer_exponential=[0.1]))
    why = {row["the paper"]: row["because"] for row in rows_of("nodes", {
        Cell(0.1, 25, "dsgdm", spec): {s: [{"test_accuracy": a}] for s, a in enumerate(some)}
        for spec, some in {
            "base:k=2": [0.90, 0.91, 0.92], "base:k=3": [0.9, 0.2, 0.9],
            "base:k=4": [0.9, 0.91, 0.9], "exponential": [0.1, 0.1, 0.1],
            "one-peer-exponential": [0.8, 0.81, 0.82],
        }.items()
    })}  # fmt: skip
    assert why[denser].startswith("base:k=3 − one-peer-exponential")  # which is open
    lost = verdicts(
        "nodes",
        ends(base__1=seeds, one_peer_exponential=ahead, exponential=alike),
        {cell: "diverged in seeds 2"},
    )
    assert lost == {above: "open", same: "confirmed", denser: "open"}
    one = ends(base__1=[0.9], one_peer_exponential=[0.1], exponential=[0.9])
    assert set(verdicts("nodes", one).values()) == {"open"}


def test_claims_are_about_the_methods_that_the_paper_has():
    panels = [(0.1, 25, method) for method in FIGURES["methods"].methods]
    judged_methods = {row["method"] for row in rows_of("methods", {}, panels=panels)}
    assert judged_methods == {m for _, _, m in panels} - {"gradient-tracking"}


def test_many_pairs_refute_less_easily_than_one():
    """A difference that refutes by itself may be the one in twenty that is chance."""
    seeds = [0.5, 0.6, 0.7]
    behind = [0.492, 0.5915, 0.6925]  # 0.8 points less, ± 0.02
    slightly = ends(base__1=behind, one_peer_exponential=seeds, exponential=seeds)
    assert (
        verdicts("nodes", slightly)["Base-2 is above the one-peer exponential graph"] == "refuted"
    )
    figure = ends(base__1=behind, exponential=seeds)
    for spec in EXISTING[1:]:
        figure |= ends(**{spec.replace("-", "_"): [0.4, 0.51, 0.6]})
    claim = "Base-2 is comparable to or above the existing topologies"
    assert verdicts("dsgd", figure)[claim] == "open"


def test_what_is_lost_or_missing_does_not_save_a_claim():
    """A pair of which nothing is lost refutes it all the same."""
    seeds = [0.5, 0.6, 0.7]
    far_behind = [s - 0.2 + 0.001 * i for i, s in enumerate(seeds)]
    claim = "Base-3, 4 and 5 are above both exponential graphs"
    curves = ends(base__2=far_behind, base__3=seeds, exponential=seeds)
    assert verdicts("nodes", curves)[claim] == "refuted"
    lost = {Cell(*PANEL, "one-peer-exponential"): "diverged in seeds 2"}
    assert verdicts("nodes", curves, lost)[claim] == "refuted"
    lost = {Cell(*PANEL, "base:k=2"): "diverged in seeds 2"}
    assert verdicts("nodes", curves, lost)[claim] == "open"


def test_equal_differences_say_nothing_of_their_error():
    chance = ends(base__1=[0.1] * 3, one_peer_exponential=[0.1] * 3, exponential=[0.1] * 3)
    assert set(verdicts("nodes", chance).values()) == {"open"}


def spread_of(small, large, lost=None, without=(), **more):
    """The verdict and why; topologies of the figure that nobody names are in the middle."""
    rest = [t for t in FIGURES["dsgd"].topologies if t not in without]
    middle = {t.replace(":k=", "__").replace("-", "_"): [0.6] * 3 for t in rest}
    curves = {c._replace(alpha=10.0): runs for c, runs in ends(**{**middle, **large}).items()}
    curves |= ends(**{**middle, **small})
    for cell in lost or {}:
        if cell not in ends(**small):
            curves.pop(cell, None)
    panels = [(10.0, *PANEL[1:]), PANEL]
    (row,) = [r for r in rows_of("dsgd", curves, lost, panels, **more)
              if "differ more" in r["the paper"]]  # fmt: skip
    return row["verdict"], row["because"]


SMALL = {"base__1": [0.70, 0.71, 0.72], "ring": [0.50, 0.51, 0.515]}
LARGE = {"base__1": [0.65, 0.66, 0.67], "ring": [0.60, 0.61, 0.62]}


def test_ranges_are_compared_over_the_same_topologies():
    """A topology that was lost where it is worst must not make the range small there."""
    assert spread_of(SMALL, LARGE)[0] == "confirmed"
    ring = Cell(*PANEL, "ring")
    outcome, why = spread_of({"base__1": SMALL["base__1"]}, LARGE, {ring: "diverged with every η"})
    assert outcome == "open"
    assert why.endswith("; ring diverged with every η")
    cut = {**SMALL, "ring": SMALL["ring"][:2]}
    assert spread_of(cut, LARGE, {ring: "diverged in seeds 2"})[0] == "open"
    others = [t for t in FIGURES["dsgd"].topologies if t != "base:k=1"]
    alone = {"base__1": SMALL["base__1"]}
    why = spread_of(alone, alone, without=others)[1]
    assert why.startswith("needs two topologies with runs at both α")


def test_ranges_of_a_figure_with_missing_runs_are_open():
    """What is not there, asked for or not, might be what differs as much where α is large."""
    outcome, why = spread_of(SMALL, LARGE, without=["exponential"])
    assert (outcome, why.partition("; ")[2]) == ("open", "without exponential")
    large = {**LARGE, "exponential": [0.6] * 3}
    assert spread_of(SMALL, large, without=["exponential"])[1].endswith("; without exponential")
    peer = Cell(*PANEL, "one-peer-exponential")
    outcome, why = spread_of(SMALL, LARGE, {peer: "diverged with every η"}, without=["torus"])
    assert outcome == "open"
    assert why.endswith("; without torus; one-peer-exponential diverged with every η")
    cut = {**LARGE, "torus": [0.6] * 2}
    cells = [Cell(a, *PANEL[1:], t) for a in (10.0, 0.1) for t in FIGURES["dsgd"].topologies]
    outcome, why = spread_of(SMALL, cut, cells=cells)
    assert (outcome, why.partition("; ")[2]) == ("open", "without torus in seeds 2")
    lost = {cell: "is unstable" for cell in cells if cell.topology == "ring"}
    alone = [{"base__1": some["base__1"]} for some in (SMALL, LARGE)]
    outcome, why = spread_of(*alone, lost, without=["ring"], cells=cells)
    assert (outcome, why.partition("; ")[2]) == ("open", "ring is unstable")


def test_which_side_is_higher_where_two_should_be_comparable():
    low, high = [0.5, 0.6, 0.7], [0.601, 0.7, 0.799]
    curves = ends(base__1=high, exponential=low, one_peer_exponential=low)
    (row,) = [r for r in rows_of("nodes", curves) if "comparable" in r["the paper"]]
    assert row["verdict"] == "refuted"
    assert row["because"].endswith("(3 seeds), base:k=1 is higher")


def test_the_same_rounds_are_comparable_and_not_above():
    curves = ends(base__1=[0.5, 0.6])
    other = Cell(*PANEL, "one-peer-exponential")
    curves[other] = curves[Cell(*PANEL, "base:k=1")]
    (row,) = rows_of("sixteen", curves)
    said = (row["verdict"], row["because"])
    assert said == ("confirmed", "base:k=1 and one-peer-exponential have the same rounds")
    assert verdicts("nodes", curves)["Base-2 is above the one-peer exponential graph"] == "refuted"


def test_claims_are_about_the_topologies_of_the_figure():
    """The figure on MNIST has no EquiDyn: that leaves none of its claims open."""
    curves = {
        Cell(*PANEL, spec): {
            seed: [
                {
                    "test_accuracy": 0.1 * seed
                    - 0.01 * place
                    + 1e-5 * ((place + 1) ** 2 * seed % 101)
                }
            ]
            for seed in (4, 5, 6)
        }
        for place, spec in enumerate(FIGURES["mnist"].topologies)  # base first
    }
    found = verdicts("mnist", curves)
    about = [text for text in found if "differ more" not in text]
    assert len(about) == 3
    assert {found[text] for text in about} == {"confirmed"}
