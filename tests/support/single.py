"""A single node in the tests' own process."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist


@contextmanager
def single_node() -> Iterator[None]:
    """Optimizers in here are alone, without a warning that they are; nothing of it stays."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "not started by torchrun")
        yield
    if dist.is_initialized():
        dist.destroy_process_group()
