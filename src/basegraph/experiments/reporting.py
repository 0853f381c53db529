"""What experiments of many runs write about them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from basegraph.experiments.store import ResultFolder
from basegraph.storage.inputs import read_json


def origins(folder: ResultFolder) -> list[dict[str, Any]]:
    """Which code and which machines the runs came from, and how many from each."""
    counts: Counter[str] = Counter()
    for path in sorted((folder / "runs").glob("*/provenance.json")):
        origin = read_json(path)
        keys = ("basegraph", "commit", "machine", "python", "torch")
        kept = {key: origin[key] for key in keys if key in origin}
        counts[json.dumps({**kept, "device": origin["measured"]["device"]})] += 1
    return [{"runs": count, **json.loads(text)} for text, count in counts.items()]


def markdown(table: list[dict[str, Any]]) -> str:
    """The table as Markdown."""
    columns = list(table[0]) if table else []
    lines = [columns, ["---"] * len(columns), *[[row[c] for c in columns] for row in table]]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)
