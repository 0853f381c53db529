"""What the paper says about training, and whether runs confirm it, refute it or leave it open.

Differences are taken within seeds, and judged by their 95 % interval (Student's t). One seed has no
interval, and leaves everything open. A claim about several pairs is confirmed if each of them
confirms it. It is refuted if one of them refutes it by an interval that is wider the more pairs
there are (Bonferroni). Claims are judged one by one, without a correction for their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from scipy.special import stdtrit

from basegraph.experiments.figures import BASES, EXISTING, FIGURES, STATIC
from basegraph.experiments.learning import Cell
from basegraph.experiments.statistics import listed, standard_error
from basegraph.training.metrics import Metrics

COMPARABLE = 0.5
"""Points of accuracy within which topologies count as comparable."""
DOUBT = 0.05
"""How often an interval may miss."""
ROUNDING = 1e-6
"""Points of accuracy: a smaller error is that of differences that are all the same."""
DENSER = BASES[1:]
Panel = tuple[float, int, str]
"""α, n and method."""
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
    methods: tuple[str, ...] = ()
    """Those it is about, as trained by us and as published; none named: all of the figure."""

    def is_about(self, panel: Panel) -> bool:
        """Whether the claim is about a panel of its figure."""
        return self.alpha in (None, panel[0]) and (not self.methods or panel[2] in self.methods)


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


_ROBUST = ("d2:damping=auto", "d2-published", "qg-dsgdm", "qg-dsgdm-published")
"""The methods of the paper's section on D² and QG-DSGDm; gradient tracking is ours to add."""


def _among(claim: Claim, figure: str) -> Claim:
    """The claim about the topologies of a figure that leaves some out."""
    trained = FIGURES[figure].topologies
    ahead, behind = ([t for t in side if t in trained] for side in (claim.ahead, claim.behind))
    return claim._replace(ahead=tuple(ahead), behind=tuple(behind))


CLAIMS: dict[str, tuple[Claim, ...]] = {
    "dsgd": _DSGD,
    "resnet": _DSGD,
    "mnist": tuple(_among(claim, "mnist") for claim in _DSGD),
    "nodes": (
        Claim("Base-2 is above the one-peer exponential graph", BASES[:1], EXISTING[1:2]),
        Claim(
            "Base-2 is comparable to the exponential graph", BASES[:1], EXISTING[:1], "comparable"
        ),
        Claim("Base-3, 4 and 5 are above both exponential graphs", DENSER, EXISTING[:2]),
    ),
    "methods": (
        Claim("Base-2 is comparable to or above the one-peer exponential graph", BASES[:1],
              EXISTING[1:2], "comparable or above", methods=_ROBUST),
        Claim("Base-5 is above the exponential graph", BASES[3:], EXISTING[:1], methods=_ROBUST),
    ),
    "equistatic": (
        Claim("Base-2 is comparable to or above all EquiStatic", BASES[:1], STATIC,
              "comparable or above"),
        Claim("Base-3, 4 and 5 are above all EquiStatic", DENSER, STATIC),
    ),
    "sixteen": (
        Claim("Base-2 and the one-peer exponential graph are comparable", BASES[:1], EXISTING[1:2],
              "comparable"),
    ),
}  # fmt: skip
"""By figure: its section's sentences about accuracy, as far as they can be counted."""


def interval(differences: list[float], pairs: int = 1) -> tuple[float, float] | None:
    """The interval of the mean of differences; None of fewer than two.

    None, too, of differences that are all the same, which say nothing of their error.

    Args:
        differences: Of one pair, within seeds.
        pairs: So many intervals miss in 5 % of all cases at most, taken together.

    Example:
        >>> low, high = interval([1.0, 2.0, 3.0])
        >>> round(low, 3), round(high, 3)
        (-0.484, 4.484)
        >>> interval([1.0, 1.0, 1.0]), interval([1.0])
        (None, None)

    """
    error = standard_error(differences)
    if error is None or error < ROUNDING:
        return None
    half = float(stdtrit(len(differences) - 1, 1 - DOUBT / pairs / 2)) * error
    return mean(differences) - half, mean(differences) + half


def verdict(kind: str, differences: list[float], pairs: int = 1) -> str:
    """Whether differences (in points) confirm that they are of a kind, or refute it.

    Args:
        kind: Of a `Claim`.
        differences: Of one pair, within seeds.
        pairs: Of the claim: any of them may refute it.

    Example:
        >>> verdict("above", [1.0, 1.1, 0.9]), verdict("above", [-1.0, -1.1, -0.9])
        ('confirmed', 'refuted')
        >>> verdict("above", [1.0, -1.0]), verdict("comparable", [0.1, 0.12, 0.11])
        ('open', 'confirmed')
        >>> verdict("above", [-1.0, -1.4, -0.6]), verdict("above", [-1.0, -1.4, -0.6], pairs=20)
        ('refuted', 'open')

    """
    limits, of_all = interval(differences), interval(differences, pairs)
    if limits is None or of_all is None:
        return "open"
    least = -COMPARABLE if kind.startswith("comparable") else 0.0
    most = COMPARABLE if kind == "comparable" else float("inf")
    if of_all[1] < least or of_all[0] > most:
        return "refuted"
    return "confirmed" if limits[0] > least and limits[1] < most else "open"


def judged(
    figure: str,
    panels: Sequence[Panel],
    cells: Sequence[Cell],
    seeds: Sequence[int],
    curves: Curves,
    lost: Mapping[Cell, str],
) -> list[dict[str, Any]]:
    """Every claim of a figure in every panel that it is about, with its verdict and why.

    Args:
        figure: Its name.
        panels: Of the figure.
        cells: All of the figure, those that are not trained too.
        seeds: That every cell shall have runs of.
        curves: The runs.
        lost: What happened to cells that diverged, or are not trained because they would. What
            their survivors say does not count; a claim about them is open unless others refute it.

    """
    rows = []
    for claim in CLAIMS[figure]:
        if claim.kind == "wider":
            rows += _spreads(claim, FIGURES[figure].topologies, panels, cells, seeds, curves, lost)
            continue
        for panel in panels:
            if claim.is_about(panel):
                rows.append(_row(claim, panel, *_compared(claim, panel, curves, lost)))
    return rows


def _row(claim: Claim, panel: Panel, outcome: str, why: str) -> dict[str, Any]:
    alpha, n, method = panel
    return {"the paper": claim.text, "α": alpha, "n": n, "method": method,
            "verdict": outcome, "because": why}  # fmt: skip


def _compared(
    claim: Claim, panel: Panel, curves: Curves, lost: Mapping[Cell, str]
) -> tuple[str, str]:
    """The verdict on all pairs, and of those that decide it the furthest from what is claimed.

    A pair of which nothing is lost may refute the claim, whatever is missing otherwise. Topologies
    with the same rounds have the same runs: they are comparable, and neither is above the other.
    """
    asked = [Cell(*panel, spec) for spec in dict.fromkeys([*claim.ahead, *claim.behind])]
    missing = [cell.topology for cell in asked if cell not in curves and cell not in lost]
    pairs = [(Cell(*panel, one), Cell(*panel, other)) for one in claim.ahead
             for other in claim.behind]  # fmt: skip
    gaps: list[tuple[str, float, str]] = []
    for one, other in pairs:
        gap = differences(curves, one, other, claim.whole_way)
        if not gap or one in lost or other in lost:
            continue
        said = f"{one.topology} − {other.topology}: {shown(gap)}"
        outcome = verdict(claim.kind, gap, len(pairs))
        if curves[one] is curves[other]:
            outcome = "confirmed" if claim.kind.startswith("comparable") else "refuted"
            said = f"{one.topology} and {other.topology} have the same rounds"
        elif claim.kind == "comparable" and outcome == "refuted":
            said += f", {(one if mean(gap) > 0 else other).topology} is higher"
        gaps.append((outcome, mean(gap), said))
    outcomes = [outcome for outcome, _, _ in gaps]
    decides = next((o for o in ("refuted", "open") if o in outcomes), "confirmed")
    alike = claim.kind == "comparable"
    deciding = [(-abs(g) if alike else g, pair) for outcome, g, pair in gaps if outcome == decides]
    reasons = [min(deciding, default=(0.0, "no pair with a common seed"))[1]]
    if missing:
        reasons.append(f"without {', '.join(missing)}")
    reasons += _losses(asked, lost)
    if "refuted" in outcomes:
        return "refuted", "; ".join(reasons)
    whole = outcomes == ["confirmed"] * len(pairs)
    return "confirmed" if whole else "open", "; ".join(reasons)


def _losses(cells: Iterable[Cell], lost: Mapping[Cell, str]) -> list[str]:
    """Which of the cells were lost, and how."""
    return list(dict.fromkeys(f"{c.topology} {lost[c]}" for c in cells if c in lost))


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


def _spreads(
    claim: Claim,
    topologies: Sequence[str],
    panels: Sequence[Panel],
    cells: Sequence[Cell],
    seeds: Sequence[int],
    curves: Curves,
    lost: Mapping[Cell, str],
) -> list[dict[str, Any]]:
    """By how much more accuracies range at the smallest α than at the largest.

    Of topologies that have runs in both panels, and of seeds that all of these have. A topology of
    the figure that lacks a run, or was not asked for, leaves it open.
    """
    alphas = sorted({panel[0] for panel in panels})
    rows = []
    for n, method in dict.fromkeys((panel[1], panel[2]) for panel in panels):
        small, large = ((a, n, method) for a in (alphas[0], alphas[-1]))
        asked = [c for c in cells if (c.alpha, c.nodes, c.method) in (small, large)]
        known = list(dict.fromkeys([*topologies, *(cell.topology for cell in asked)]))
        whole = [t for t in known if all(Cell(*p, t) in curves for p in (small, large))]
        gone = {cell.topology for cell in asked if cell in lost}
        missing = [t for t in known if t not in whole and t not in gone]
        trained = [c for c in asked if c.topology in whole and c.topology not in gone]
        missing += _with_missing_seeds(trained, seeds, curves)
        ranges = [_ranges([curves[Cell(*p, t)] for t in whole]) for p in (small, large)]
        gap = [ranges[0][seed] - ranges[1][seed] for seed in ranges[0] if seed in ranges[1]]
        if len(alphas) == 1:
            gap, reasons = [], ["needs runs of two α"]
        elif not gap:
            reasons = ["needs two topologies with runs at both α"]
        else:
            reasons = [f"range at α={alphas[0]:g} − at {alphas[-1]:g}: {shown(gap)}"]
        if missing:
            reasons.append(f"without {', '.join(missing)}")
        reasons += _losses(asked, lost)
        outcome = "open" if missing or gone else verdict("above", gap)
        rows.append(_row(claim, small, outcome, "; ".join(reasons)))
    return rows


def _with_missing_seeds(cells: Iterable[Cell], seeds: Sequence[int], curves: Curves) -> list[str]:
    """The topologies that lack runs of some seeds, and of which."""
    lacking: dict[str, set[int]] = {}
    for cell in cells:
        lacking.setdefault(cell.topology, set()).update(s for s in seeds if s not in curves[cell])
    return [f"{t} in seeds {listed(sorted(some))}" for t, some in lacking.items() if some]


def _ranges(runs: list[Mapping[int, list[Metrics]]]) -> dict[int, float]:
    """The range of final accuracies over topologies, of every seed that all of them have."""
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
