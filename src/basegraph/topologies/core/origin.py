"""Where an arc comes from: the line of pseudo-code, or the construction, that added it."""

from __future__ import annotations

from enum import IntEnum


class Origin(IntEnum):
    """Which line of the paper's pseudo-code, or which other construction, added an arc.

    The figures color by it.
    """

    UNSPECIFIED = 0
    HYPER_HYPERCUBE = 1
    """Alg. 1, line 9: a complete graph among the nodes that differ in one digit."""
    LINE_11 = 2
    """Alg. 2, line 11: average inside each V_l."""
    LINE_15 = 3
    """Alg. 2, line 15: the smaller parts give V_l the average of all."""
    LINE_20 = 4
    """Alg. 2, line 20: redundant; nodes of V_l that no smaller part needed."""
    LINE_25 = 5
    """Alg. 2, line 25: average inside each V_{l,a}."""
    LINE_27 = 6
    """Alg. 2, line 27: redundant; the last part, already finished, averages again."""
    ACROSS = 7
    """Alg. 3, line 10: average across the blocks V_1 .. V_p."""
    MIRROR = 8
    """euclid: every pair of one mirror."""
    MIX = 9
    """block-mix, middle round: what makes every column hold its share of every row."""
    MIX_IDLE = 10
    """block-mix, middle round: redundant; nodes of one column that the middle did not need."""
    MERGE = 11
    """block-merge, last round: every node hears its share of every other block."""

    @property
    def label(self) -> str:
        """How tables and legends name it."""
        return _ORIGIN_LABELS[self]


_ORIGIN_LABELS = {
    Origin.UNSPECIFIED: "",
    Origin.HYPER_HYPERCUBE: "Alg. 1 line 9",
    Origin.LINE_11: "Alg. 2 line 11",
    Origin.LINE_15: "Alg. 2 line 15",
    Origin.LINE_20: "Alg. 2 line 20",
    Origin.LINE_25: "Alg. 2 line 25",
    Origin.LINE_27: "Alg. 2 line 27",
    Origin.ACROSS: "Alg. 3 line 10",
    Origin.MIRROR: "euclid mirror",
    Origin.MIX: "block-mix middle",
    Origin.MIX_IDLE: "block-mix idle nodes",
    Origin.MERGE: "block-merge",
}
