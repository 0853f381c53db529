"""Wires: what a message costs, and what models come to at equal bytes.

`messages` packs and unpacks a vector on one CPU thread; times are medians of interleaved rounds,
beside a copy of the vector in the same run. `accuracy` trains n nodes in one process, all with the
same bytes per step: a wire of one byte per number at every step, float32 at every fourth one. What
it prints it also writes to --out, with where it came from. Exchanges between processes, also over
shaped links, are measured by distributed.py --wires (--netns).

    python benchmarks/wire.py messages --size 1000000
    python benchmarks/wire.py accuracy --dataset digits --out docs/results/wire/digits
    python benchmarks/wire.py accuracy --dataset mnist --model lenet --data-dir data --out mnist
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median

import torch
from provenance import header

import basegraph as bg
from basegraph.experiments.store import ResultFolder
from basegraph.wires import wire

MESSAGES = ("bf16", "int8", "fp8", "topk:0.01", "topk:0.1", "randk:0.01", "randk:0.1")
BUDGETS = {
    "4 bytes": (("float32", 1),),
    "1 byte": (
        ("float32", 4), ("bf16", 2), ("int8", 1), ("fp8", 1), ("int8:links=true", 1),
        ("topk:0.2", 1), ("randk:0.25", 1),
    ),
    "0.1 bytes": (("float32", 40), ("int8", 10), ("topk:0.02", 1), ("randk:0.025", 1)),
}  # fmt: skip
"""Bytes per number and step, and which wires at every so many steps send about that."""
TESTED = 2000
"""Test samples at most, the same for all."""


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def messages(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    v = torch.randn(options.size, generator=torch.Generator().manual_seed(0))
    works: dict[tuple[str, str], Callable[[], object]] = {("", "copy"): v.clone}
    for spec in MESSAGES:
        chosen = wire(spec)
        if chosen.coordinates is not None:
            places = chosen.coordinates.at(0, len(v), v.device)
            part = v[places]
            works[spec, "pack"] = lambda c=chosen: v[c.coordinates.at(0, len(v), v.device)]
            works[spec, "unpack"] = lambda places=places, part=part: v.index_copy(0, places, part)
        else:
            parts = chosen.codec.encode(v)
            works[spec, "pack"] = lambda c=chosen.codec: c.encode(v)
            works[spec, "unpack"] = lambda c=chosen.codec, p=parts: c.decode(p, len(v), v.dtype)
    times: dict[tuple[str, str], list[float]] = {name: [] for name in works}
    for _ in range(options.rounds):
        for name, work in works.items():
            times[name].append(seconds(work))
    copy = median(times["", "copy"])
    print(f"{options.size} numbers; a copy takes {1e3 * copy:.2f} ms")
    print(f"{'wire':<12} {'bytes per number':>16} {'pack / copy':>12} {'unpack / copy':>14}")
    for spec in MESSAGES:
        each = wire(spec).message_bytes(options.size) / options.size
        pack, unpack = (median(times[spec, what]) / copy for what in ("pack", "unpack"))
        print(f"{spec:<12} {each:>16.3f} {pack:>12.1f} {unpack:>14.1f}")


def accuracy(options: argparse.Namespace) -> None:
    folder = ResultFolder(Path(options.out), ["accuracy.csv", "README.md"], force=True)
    seeds = range(options.seeds)
    rows = []
    for budget, cases in BUDGETS.items():
        for spec, local_steps in cases:
            ends = [_trained(options, spec, local_steps, seed) for seed in seeds]
            rows.append(
                {
                    "bytes per number and step": budget,
                    "wire": spec,
                    "local_steps": local_steps,
                    "MB per node": round(mean(e["bytes_per_node"] for e in ends) / 1e6, 3),
                    "nodes": round(100 * mean(e["test_accuracy"] for e in ends), 2),
                    "average": round(100 * mean(e["test_accuracy_averaged"] for e in ends), 2),
                    "consensus distance": f"{mean(e['consensus_distance'] for e in ends):.1e}",
                }
            )
            print(*rows[-1].values(), sep=" | ", flush=True)
    folder.table("accuracy.csv", rows)
    lines = [
        f"# Accuracy at equal bytes: {options.dataset}, {options.model}, {options.nodes} nodes",
        "",
        f"{options.topology}, dsgdm, lr {options.lr}, α = {options.alpha}, {options.steps} steps "
        f"of {options.batch}, {options.seeds} seeds; accuracy in % on at most {TESTED} test "
        f"samples, of the nodes' own models and of their average.",
        "",
        "| " + " | ".join(rows[0]) + " |",
        "|" + " --- |" * len(rows[0]),
        *("| " + " | ".join(map(str, row.values())) + " |" for row in rows),
    ]
    folder.text("README.md", "\n".join(lines) + "\n")
    folder.provenance(f"{options.dataset}, by basegraph.data")


def _trained(
    options: argparse.Namespace, spec: str, local_steps: int, seed: int
) -> dict[str, float]:
    config = bg.RunConfig(
        topology=options.topology, nodes=options.nodes, algorithm="dsgdm", lr=options.lr,
        alpha=options.alpha, dataset=options.dataset, model=options.model, wire=spec,
        local_steps=local_steps, batch=options.batch, epochs=1, epoch_steps=options.steps,
        augment="none", data_dir=options.data_dir, seed=seed, device=options.device,
        evaluate_last=TESTED,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as out:
        return dict(bg.train(config, Path(out, "run"))[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("messages")
    one.add_argument("--size", type=int, default=1_000_000)
    one.add_argument("--rounds", type=int, default=7)
    one.set_defaults(run=messages)
    two = commands.add_parser("accuracy")
    for name, default in (("dataset", "digits"), ("model", "mlp"), ("topology", "base:k=1"),
                          ("data-dir", ""), ("device", "auto"), ("out", None)):  # fmt: skip
        two.add_argument(f"--{name}", default=default, required=default is None)
    for name, number in (("nodes", 25), ("steps", 200), ("batch", 32), ("seeds", 2)):
        two.add_argument(f"--{name}", type=int, default=number)
    for name, value in (("lr", 0.1), ("alpha", 0.1)):
        two.add_argument(f"--{name}", type=float, default=value)
    two.set_defaults(run=accuracy)
    options = parser.parse_args()
    print(header(), end="\n\n")
    options.run(options)


if __name__ == "__main__":
    main()
