"""How many threads torch uses on a CPU: by the size of the work, unless the user has said.

Threads pay where the layers are large. Small layers gain little from a second thread, and lose a
lot where other programs hold the cores: at the end of every layer, all threads wait for the one
that does not get its turn. `benchmarks/threads.py` measures both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from basegraph.data.dataset import Dataset
from basegraph.engines.evaluation import CHUNK
from basegraph.models.flat import FlatModel
from basegraph.models.layers import layer_outputs, multiply_adds
from basegraph.training.config import RunConfig

WORK_PER_THREAD = 2**24
"""Multiply-adds of an average layer for which one more thread is used."""
SET_BY_USER = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that decide in place of the rule; torchrun sets the first one."""


class Threads(NamedTuple):
    """Numbers of threads."""

    steps: int
    evaluations: int


def choose_threads(
    config: RunConfig, model: FlatModel, dataset: Dataset, device: torch.device, nodes: int
) -> Threads:
    """The numbers of CPU threads of a run.

    That is `config.threads`, or else one thread per `WORK_PER_THREAD`, up to what torch uses now. A
    layer is computed for all nodes at once, except with convolutions, which a CPU computes for one
    node after another. On a GPU, and where the environment sets a number of threads, the number
    stays as it is.

    Args:
        config: The run, or one of several runs side by side.
        model: Its model.
        dataset: Its data, for the shape of a sample.
        device: Where it is trained.
        nodes: How many nodes are trained in this process, of one run or of several.

    """
    now = torch.get_num_threads()
    if config.threads:
        return Threads(config.threads, config.threads)
    if now == 1 or device.type != "cpu" or any(name in os.environ for name in SET_BY_USER):
        return Threads(now, now)
    layers = layer_outputs(model.module, torch.as_tensor(dataset.example()))
    products = [multiply_adds(layer, output) for layer, output in layers]
    products = [count for count in products if count]
    per_sample = sum(products) / len(products) if products else model.size
    at_once, models = (1, 1) if model.has_convolutions else (nodes, config.nodes + 1)
    chunk = CHUNK // (config.nodes + 1)

    def threads(samples: int) -> int:
        return max(1, min(now, int(samples * per_sample / WORK_PER_THREAD)))

    return Threads(threads(at_once * config.batch), threads(models * min(chunk, len(dataset.test))))


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Let torch use so many threads in here, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
