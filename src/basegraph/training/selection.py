"""Which nodes and samples an evaluation uses: all at the end of a run, fewer where asked or before.

Evaluating every node's own model takes n times as many forward passes as the sets have samples, so
with many nodes it can take longer than the training in between. What is left out is drawn from the
seed: all evaluations of a run use the same nodes and samples, and so do all runs of one seed.
"""

from __future__ import annotations

import numpy as np

from basegraph.data.partition import sample
from basegraph.engines.evaluation import Selection
from basegraph.topologies.core.round import IntArray
from basegraph.training.config import RunConfig

FEWEST_SAMPLES = 1000
"""Samples of each set that are used whatever they cost, if nothing else is asked for."""
FEWEST_PREDICTIONS = 2**16
"""The same for samples of many predictions each, such as windows of tokens."""
FEWEST_NODES = 25
"""Nodes that are used whatever they cost, if nothing else is asked for."""
TRAINING_PASSES = 3
"""What a training sample costs, in forward passes: one forward and about two backward."""


def everything(
    nodes: int, sets: dict[str, IntArray], groups: dict[str, IntArray] | None = None
) -> Selection:
    """All nodes, and all samples of the sets that are not empty.

    Args:
        nodes: How many nodes there are.
        sets: The samples of each set.
        groups: The group of each sample of a set, where groups are to be told apart.

    Example:
        >>> everything(3, {"test": np.arange(5), "validation": np.arange(0)}).counts()
        {'evaluated_nodes': 3, 'test_samples': 5}

    """
    used = {name: part for name, part in sets.items() if len(part)}
    return Selection(np.arange(nodes), used, groups or {})


def at_the_end(config: RunConfig, whole: Selection) -> Selection:
    """What the last evaluation uses: everything, or fewer samples, but some of every group.

    Args:
        config: How many samples are asked for, and the seed that they are drawn from.
        whole: All nodes and samples.

    Example:
        >>> whole = everything(3, {"test": np.arange(5)}, {"test": np.array([0, 0, 0, 0, 1])})
        >>> last = at_the_end(RunConfig(nodes=3, evaluate_last=1), whole)
        >>> bool(last.group_sizes("test").all())
        True

    """
    if not config.evaluate_last:
        return whole
    chosen = {}
    for part, (name, samples) in enumerate(whole.sets.items(), start=1):
        drawn = sample(len(samples), config.evaluate_last, config.seed, part)
        if name in whole.groups:
            first_of_each = np.unique(whole.groups[name], return_index=True)[1]
            without = ~np.isin(whole.groups[name][first_of_each], whole.groups[name][drawn])
            drawn = np.sort(np.concatenate([drawn, first_of_each[without]]))
        chosen[name] = drawn
    return Selection(
        whole.nodes,
        {name: samples[chosen[name]] for name, samples in whole.sets.items()},
        {name: groups[chosen[name]] for name, groups in whole.groups.items()},
    )


def on_the_way(
    config: RunConfig, whole: Selection, training_samples: int, predictions: int = 1
) -> Selection:
    """What evaluations before the last one use.

    Where the configuration leaves it open, evaluations take about as many forward passes as the
    training between them: fewer samples first, then fewer nodes.

    Args:
        config: How many nodes and samples are asked for, and the seed that they are drawn from.
        whole: All nodes and samples.
        training_samples: Samples that all nodes together are trained on in an epoch.
        predictions: What models predict for one sample: every token of a window.

    """
    fewest = FEWEST_SAMPLES if predictions == 1 else -(-FEWEST_PREDICTIONS // predictions)
    budget = TRAINING_PASSES * training_samples * config.epochs_between_evaluations()
    counts = {name: len(samples) for name, samples in whole.sets.items()}
    if config.evaluate_samples < 0:
        share = budget / ((len(whole.nodes) + 1) * sum(counts.values()))
        sizes = {name: max(int(share * count), fewest) for name, count in counts.items()}
    else:
        sizes = dict.fromkeys(counts, config.evaluate_samples or max(counts.values()))
    used = {
        name: samples[sample(len(samples), sizes[name], config.seed, part)]
        for part, (name, samples) in enumerate(whole.sets.items(), start=1)
    }
    nodes = config.evaluate_nodes or len(whole.nodes)
    if nodes < 0:
        passes = sum(len(samples) for samples in used.values())
        nodes = max(FEWEST_NODES, budget // passes - 1)  # the averaged model is evaluated too
    return Selection(whole.nodes[sample(len(whole.nodes), nodes, config.seed, 0)], used)
