"""What a run does besides its steps: planning and evaluating, against the steps of an epoch.

CPU time of one thread. Planning is also done with a generator for each node and pass, which gives
the same plan. "usual" is an evaluation on the way, "last" the one at the end, of everything.

    python benchmarks/overhead.py
    python benchmarks/overhead.py --dataset mnist --model lenet --data-dir data --nodes 100
    python benchmarks/overhead.py --dataset cifar10 --model lenet --data-dir data --nodes 25 --plans
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from provenance import header

from basegraph.data import philox
from basegraph.data.catalog import load
from basegraph.data.plan import SamplePlanner
from basegraph.engines.stacked.engine import StackedEngine
from basegraph.models.networks import build
from basegraph.training.config import RunConfig
from basegraph.training.problem import Problem


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def planning(problem: Problem, few: int, epochs: int = 3) -> float:
    """CPU seconds per epoch where generators that give up to `few` numbers are not made."""
    steps, parts = problem.steps_per_epoch, problem.planner
    planner = SamplePlanner(
        parts.parts,
        parts.batch,
        parts.seed,
        image=parts.image,
        augmentations=parts.augmentations,
    )
    before, philox.FEW_NUMBERS = philox.FEW_NUMBERS, few
    try:
        return seconds(lambda: [planner.steps(e * steps, (e + 1) * steps) for e in range(epochs)])
    finally:
        philox.FEW_NUMBERS = before


def measure(config: RunConfig, only_plans: bool) -> None:
    dataset = load(config.dataset, Path(config.data_dir) if config.data_dir else None)
    module = build(config.model, dataset.shape, dataset.classes, config.seed)
    problem = Problem(config, dataset, module)
    plan, one_by_one = (planning(problem, few) / 3 for few in (philox.FEW_NUMBERS, 0))
    if only_plans:
        print(
            f"{config.nodes:>6} {'–':>9} {plan * 1e3:>8.1f} {one_by_one * 1e3:>10.1f}", flush=True
        )
        return
    engine = StackedEngine(dataset, [problem])
    steps = seconds(lambda: [engine.advance() for _ in range(problem.steps_per_epoch)])
    (run,) = engine.runs
    usual = seconds(lambda: run.evaluate(problem.evaluated))
    last = seconds(lambda: run.evaluate(problem.evaluated_last))
    used = problem.evaluated.counts()
    print(
        f"{config.nodes:>6} {steps:>9.2f} {plan * 1e3:>8.1f} {one_by_one * 1e3:>10.1f}"
        f" {usual:>8.2f} {last:>8.2f} {used['evaluated_nodes']:>6} {used['test_samples']:>8}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--data-dir", default="")
    parser.add_argument("--nodes", default="25,100,1000")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--plans", action="store_true", help="measure planning alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(header())
    print(f"\n{options.dataset}, {options.model}, {options.epochs} epochs; CPU time of an epoch")
    print(
        f"{'nodes':>6} {'epoch s':>9} {'plan ms':>8} {'one by one':>10} {'usual s':>8}"
        f" {'last s':>8} {'nodes':>6} {'samples':>8}"
    )
    for nodes in map(int, options.nodes.split(",")):
        measure(
            RunConfig(
                nodes=nodes,
                dataset=options.dataset,
                model=options.model,
                data_dir=options.data_dir,
                epochs=options.epochs,
                topology="ring",
                device="cpu",
            ),
            options.plans,
        )


if __name__ == "__main__":
    main()
