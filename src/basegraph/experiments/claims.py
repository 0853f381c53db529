"""What the paper says about training, and whether runs confirm it, refute it or leave it open.

Differences are taken within seeds, and judged by their 95 % interval (Student's t). One seed has no
interval, and leaves everything open. Claims are judged one by one, without a correction for their
number.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Any, NamedTuple

from basegraph.experiments.campaign import listed, standard_error
from basegraph.experiments.learning import BASES, EXISTING, STATIC, Cell
from basegraph.training.metrics import Metrics

COMPARABLE = 0.5
"""Points of accuracy within which topologies count as comparable."""
STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""95 % of Student's t lie within this, by degrees of freedom from 1."""
DENSER = BASES[1:]
Curves = Mapping[Cell, Mapping[int, list[Metrics]]]
"""The evaluations of the runs with the chosen rate, by cell and seed."""


class Claim(NamedTuple):
    """All of `ahead` against all of `behind`, at the end or over the whole way."""

    text: str
    ahead: tuple[str, ...]
    behind: tuple[str, ...]
    kind: str = "above"
    """above, comparable or above, or comparable."""
    alpha: float | None = None
    """Of the panels it is about; None: all of them."""
    whole_way: bool = False


_SPREAD = Claim("accuracies differ more where α is smaller", (), (), "wider")
_DSGD = (
    Claim("Base-2 to Base-5 reach high accuracy faster", BASES, EXISTING, alpha=0.1,
          whole_way=True),
    Claim("Base-2 is comparable to or above the existing topologies", BASES[:1], EXISTING,
          "comparable or above", 0.1),
    Claim("Base-3, 4 and 5 are above all existing topologies", DENSER, EXISTING, alpha=0.1),
    Claim("Base-5 is above the other topologies", BASES[3:], (*BASES[:3], *EXISTING), alpha=10.0),
    _SPREAD,
)  # fmt: skip
CLAIMS: dict[str, tuple[Claim, ...]] = {
    "dsgd": _DSGD,
    "resnet": _DSGD,
    "mnist": _DSGD,
    "nodes": (
        Claim("Base-2 is above the one-peer exponential graph", BASES[:1], EXISTING[1:2]),
        Claim(
            "Base-2 is comparable to the exponential graph", BASES[:1], EXISTING[:1], "comparable"
        ),
        Claim("Base-3, 4 and 5 are above both exponential graphs", DENSER, EXISTING[:2]),
    ),
    "methods": (
        Claim("Base-2 is comparable to or above the one-peer exponential graph", BASES[:1],
              EXISTING[1:2], "comparable or above"),
        Claim("Base-5 is above the exponential graph", BASES[3:], EXISTING[:1]),
    ),
    "equistatic": (
        Claim("Base-2 is comparable to or above all EquiStatic", BASES[:1], STATIC,
              "comparable or above"),
        Claim("Base-3, 4 and 5 are above all EquiStatic", DENSER, STATIC),
    ),
    "sixteen": (
        Claim("Base-2 and the one-peer exponential graph are alike", BASES[:1], EXISTING[1:2],
              "comparable"),
    ),
}  # fmt: skip
"""By figure: its section's sentences about accuracy, as far as they can be counted."""


def interval(differences: list[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean of differences; None of fewer than two.

    >>> interval([1.0, 1.0, 1.0]), interval([1.0])
    ((1.0, 1.0), None)
    """
    error = standard_error(differences)
    if error is None:
        return None
    half = STUDENT[min(len(differences) - 1, len(STUDENT)) - 1] * error
    return mean(differences) - half, mean(differences) + half


def verdict(kind: str, differences: list[float]) -> str:
    """Whether differences (in points) confirm that they are of a kind.

    >>> verdict("above", [1.0, 1.1, 0.9]), verdict("above", [-1.0, -1.1, -0.9])
    ('confirmed', 'refuted')
    >>> verdict("above", [1.0, -1.0]), verdict("comparable", [0.1, 0.12, 0.11])
    ('open', 'confirmed')
    """
    limits = interval(differences)
    if limits is None:
        return "open"
    low, high = limits
    least = -COMPARABLE if kind.startswith("comparable") else 0.0
    most = COMPARABLE if kind == "comparable" else float("inf")
    if high < least or low > most:
        return "refuted"
    return "confirmed" if low > least and high < most else "open"


def judged(
    figure: str, cells: list[Cell], curves: Curves, diverged: Mapping[Cell, list[int]]
) -> list[dict[str, Any]]:
    """Every claim of a figure in every panel that it is about, with its verdict and why.

    Args:
        figure: Its name.
        cells: That there are runs of.
        curves: The runs.
        diverged: Seeds of cells that diverged: what survivors say leaves a claim open.

    """
    panels = list(
        dict.fromkeys((c.alpha, c.nodes, c.method) for c in cells if c.method != "allreduce-sgd")
    )
    rows = []
    for claim in CLAIMS[figure]:
        if claim.kind == "wider":
            rows += _spreads(claim, panels, curves)
            continue
        for panel in panels:
            if claim.alpha in (None, panel[0]):
                rows.append(_row(claim, panel, *_compared(claim, panel, curves, diverged)))
    return rows


Panel = tuple[float, int, str]


def _row(claim: Claim, panel: Panel, outcome: str, why: str) -> dict[str, Any]:
    alpha, n, method = panel
    return {"the paper": claim.text, "α": alpha, "n": n, "method": method,
            "verdict": outcome, "because": why}  # fmt: skip


def _compared(
    claim: Claim, panel: Panel, curves: Curves, diverged: Mapping[Cell, list[int]]
) -> tuple[str, str]:
    """The verdict on all pairs, and of those that decide it the furthest from what is claimed."""
    present = {c.topology for c in curves if (c.alpha, c.nodes, c.method) == panel}
    asked = list(dict.fromkeys([*claim.ahead, *claim.behind]))
    missing = [spec for spec in asked if spec not in present]
    gaps: list[tuple[str, float, str]] = []
    for one in claim.ahead:
        for other in claim.behind:
            if one in missing or other in missing:
                continue
            gap = differences(curves, Cell(*panel, one), Cell(*panel, other), claim.whole_way)
            if gap:
                pair = f"{one} − {other}: {shown(gap)}"
                gaps.append((verdict(claim.kind, gap), mean(gap), pair))
    outcomes = [outcome for outcome, _, _ in gaps]
    decides = next((o for o in ("refuted", "open") if o in outcomes), "confirmed")
    alike = claim.kind == "comparable"
    deciding = [(-abs(g) if alike else g, pair) for outcome, g, pair in gaps if outcome == decides]
    why = min(deciding, default=(0.0, "no runs"))[1]
    if missing:
        why += f"; without {', '.join(missing)}"
    lost = {spec: diverged[cell] for spec in asked if (cell := Cell(*panel, spec)) in diverged}
    if lost:
        seeds = (f"{spec} in seeds {listed(some)}" for spec, some in lost.items())
        return "open", f"{why}; diverged: {', '.join(seeds)}"
    if "refuted" in outcomes:
        return "refuted", why
    whole = outcomes and not missing and all(outcome == "confirmed" for outcome in outcomes)
    return ("confirmed" if whole else "open"), why


def differences(curves: Curves, one: Cell, other: Cell, whole_way: bool = False) -> list[float]:
    """Points of test accuracy of one cell above another, within seeds."""
    mine, theirs = curves.get(one, {}), curves.get(other, {})
    return [
        _points(mine[seed], whole_way) - _points(theirs[seed], whole_way)
        for seed in mine
        if seed in theirs
    ]


def _points(rows: list[Metrics], whole_way: bool) -> float:
    """The nodes' mean accuracy in percent: at the end, or on average over all evaluations."""
    return 100 * mean(row["test_accuracy"] for row in (rows if whole_way else rows[-1:]))


def _spreads(claim: Claim, panels: list[Panel], curves: Curves) -> list[dict[str, Any]]:
    """By how much more accuracies range at the smallest α than at the largest."""
    alphas = sorted({panel[0] for panel in panels})
    rows = []
    for n, method in dict.fromkeys((panel[1], panel[2]) for panel in panels):
        small, large = ((a, n, method) for a in (alphas[0], alphas[-1]))
        ranges = [_ranges(panel, curves) for panel in (small, large)]
        gap = [ranges[0][seed] - ranges[1][seed] for seed in ranges[0] if seed in ranges[1]]
        usable = gap if len(alphas) > 1 else []
        why = f"range at α={alphas[0]:g} − at {alphas[-1]:g}: {shown(usable)}" if usable else ""
        rows.append(_row(claim, small, verdict("above", usable), why or "needs runs of two α"))
    return rows


def _ranges(panel: Panel, curves: Curves) -> dict[int, float]:
    """The range of final accuracies over topologies, of every seed that all of them have."""
    runs = [r for c, r in curves.items() if (c.alpha, c.nodes, c.method) == panel]
    if len(runs) < 2:
        return {}
    ends = {s: [_points(r[s], False) for r in runs if s in r] for s in runs[0]}
    return {s: max(all_) - min(all_) for s, all_ in ends.items() if len(all_) == len(runs)}


def shown(gaps: list[float]) -> str:
    """A mean difference with its standard error.

    >>> shown([1.0, 2.0]), shown([1.0])
    ('1.50 ± 0.50 (2 seeds)', '1.00 (1 seed)')
    """
    error = standard_error(gaps)
    if error is None:
        return f"{mean(gaps):.2f} (1 seed)"
    return f"{mean(gaps):.2f} ± {error:.2f} ({len(gaps)} seeds)"
