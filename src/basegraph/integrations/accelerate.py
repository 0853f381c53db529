"""Hugging Face Accelerate: `prepare` without DDP, so that gradients stay on their node."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from basegraph.errors import InvalidArgument
from basegraph.extras import optional_imports

with optional_imports():
    from accelerate import Accelerator, DistributedType

A = TypeVar("A", bound="Accelerator")
SHARDED = (DistributedType.DEEPSPEED, DistributedType.FSDP, DistributedType.MEGATRON_LM)


def without_ddp(accelerator: A) -> A:
    """Let `accelerator.prepare` leave models as they are, instead of wrapping them in DDP.

    DDP averages the gradients of all processes, so all nodes would make the same steps, and gossip
    would have nothing to average. Placement, mixed precision, `torch.compile`, the data loaders'
    shards, gradient accumulation and schedulers are what they are with Accelerate otherwise.

    Args:
        accelerator: What prepares the script's objects.

    Returns:
        The same accelerator.

    Raises:
        InvalidArgument: It shards models, by DeepSpeed, FSDP or Megatron-LM.

    Example:
        >>> from accelerate import Accelerator
        >>> import torch
        >>> accelerator = without_ddp(Accelerator(cpu=True))
        >>> model = accelerator.prepare(torch.nn.Linear(2, 1))
        >>> type(model).__name__
        'Linear'

    """
    if accelerator.distributed_type in SHARDED:
        kind = accelerator.distributed_type.value
        raise InvalidArgument("accelerator", kind, "must not shard models: every process is a node")
    # "evaluation_mode" is all that Accelerate does to a model, but for the wrapper.
    accelerator.prepare_model = partial(accelerator.prepare_model, evaluation_mode=True)
    return accelerator
