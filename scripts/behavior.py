"""Record what the library computes, and compare two records: proof that a refactoring lost nothing.

    python scripts/behavior.py record before.json      # on the old commit
    python scripts/behavior.py record after.json       # on the new one, same machine
    python scripts/behavior.py compare before.json after.json

A record holds: a hash of every round of every topology of the catalogue with its options, for
n ≤ 64; the metrics of a short CPU run of every algorithm on three topologies, in one process and
with a process per node, bytes included; and what the commands print with `--json`. Only names that
users rely on are used, so that one script fits both commits. `compare` names every difference and
leaves with exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import basegraph as bg
from basegraph import cli

RECORDED_NODES = 64
STEPS = 8
"""Rounds that are recorded of a topology without a period."""
OPTIONS: dict[str, list[Any]] = {
    "k": [1, 2, 3, 4],
    "degree": [2, 4],
    "seed": [0, 3],
    "redundant": [True, False],
    "isolated": ["first", "last"],
    "home": [False, True],
}
TRAINED_ON = ["base:k=1", "exponential", "one-peer-d-equidyn:seed=1"]
FLAGS = ["--epochs", "2", "--evaluate-every", "1", "--batch", "64", "--lr", "0.05", "--warmup", "0"]
TIMES = {"seconds", "steps_per_second"}
"""Metrics that differ from run to run."""
COMMANDS = [
    "topology base --nodes 6 --json",
    "topology short --nodes 25 --degree 2 --json",
    "topology exponential --nodes 12 --json",
    "topology one-peer-u-equidyn --nodes 9 --json",
    "verify base --nodes 2:20 --json",
    "verify short --nodes 25 --degree 3 --json",
    "lengths --nodes 2:40 --degree 1:3 --json",
    "consensus --nodes 25 --topologies base:k=1,ring,one-peer-exponential --json",
    "bench model --nodes 2:64 --json",
]


def record(path: Path) -> None:
    """Write what this commit computes into a file."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    facts = {
        "arcs": {f"{name} {options}": arcs(name, options) for name, options in every_topology()},
        "runs": {f"{engine} {a} {t}": run(engine, a, t) for engine, a, t in every_run()},
        "commands": {command: printed(command) for command in COMMANDS},
    }
    path.write_text(json.dumps(facts, indent=1))
    print({name: len(part) for name, part in facts.items()})


def every_topology() -> Any:
    """(name, options) of the topologies that are recorded."""
    for name, builder in bg.TOPOLOGIES.items():
        names = [option for option in [*builder.options, "home"] if option in OPTIONS]
        for values in itertools.product(*(OPTIONS[option] for option in names)):
            yield name, dict(zip(names, values, strict=True))


def arcs(name: str, options: dict[str, Any]) -> str:
    """A hash of all rounds, for all n together."""
    digest = hashlib.sha256()
    for n in range(1, RECORDED_NODES + 1):
        digest.update(arcs_of(name, n, options))
    return digest.hexdigest()


def arcs_of(name: str, n: int, options: dict[str, Any]) -> bytes:
    """The rounds as bytes, or what kind of error there is."""
    try:
        t = bg.topology(name, n, **options)
    except ValueError as error:
        return type(error).__name__.encode()
    parts = [repr((t.n, t.period, t.max_degree, t.symmetric)).encode()]
    for step in range(t.period or STEPS):
        r = t.round(step)
        r = getattr(r, "slots", r)  # of nodes with two vectors each: the map on all of them
        arrays = (r.receivers, r.senders, r.numerators, r.denominators, r.weights, r.self_weights)
        parts += [np.ascontiguousarray(a).tobytes() for a in arrays]
    return b"|".join(parts)


def every_run() -> Any:
    """(engine, algorithm, topology) of the runs that are made."""
    for engine in ("stacked", "distributed"):
        for name in bg.ALGORITHMS:
            two = bg.algorithm(name).vectors == 2
            for spec in ["ceca"] if two else TRAINED_ON:
                yield engine, name, spec


def run(engine: str, algorithm: str, topology: str) -> list[dict[str, Any]]:
    """The metrics of a short run without times."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["train", "--algorithm", algorithm, "--topology", topology, "--device", "cpu"]
        flags += [*FLAGS, "--allow-unstable", "true", "--engine", engine, "--out", f"{folder}/run"]
        if engine == "stacked":
            main([*flags, "--nodes", "5"])
        else:
            launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            launch += ["--nproc-per-node", "3", "-m", "basegraph", *flags]
            subprocess.run(launch, check=True, capture_output=True)
        lines = (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [{name: row[name] for name in row if name not in TIMES} for row in rows]


def printed(command: str) -> Any:
    """What a command prints, as JSON."""
    return json.loads(main(command.split()))


def main(arguments: list[str]) -> str:
    """Run a command of basegraph here; what it prints."""
    sys.argv = ["basegraph", *arguments]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            cli.main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"{' '.join(arguments)}: exit code {end.code}") from None
    return output.getvalue()


def compare(before: Path, after: Path) -> int:
    """Print what differs between two records; how many differences there are."""
    one, two = json.loads(before.read_text()), json.loads(after.read_text())
    count = 0
    for part in one:
        for key in sorted({*one[part], *two[part]}):
            old, new = one[part].get(key), two[part].get(key)
            if old != new:
                count += 1
                print(f"{part}: {key}\n  before {str(old)[:300]}\n  after  {str(new)[:300]}")
    print(f"{count} differences in {sum(len(part) for part in one.values())} records")
    return count


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("files", type=Path, nargs="+")
    asked = parser.parse_args()
    if asked.action == "record":
        record(asked.files[0])
    else:
        sys.exit(bool(compare(*asked.files)))
