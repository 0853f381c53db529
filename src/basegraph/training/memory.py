"""How much memory a run takes: estimated before anything is allocated, so as not to fail later."""

from __future__ import annotations

import gc

import torch
from torch import Tensor, nn

from basegraph.algorithms.catalog import algorithm
from basegraph.algorithms.method import Method
from basegraph.data.dataset import Dataset
from basegraph.errors import BasegraphError
from basegraph.models.flat import FlatModel
from basegraph.models.gpt import GPT
from basegraph.models.gpt_gradients import fits as by_hand
from basegraph.models.layers import layer_outputs
from basegraph.models.linear_cross_entropy import CHUNK_ON_CPU, CHUNK_ON_GPU
from basegraph.storage.memory import available_memory
from basegraph.training.config import RunConfig
from basegraph.training.problem import within_outer
from basegraph.wires.catalog import wire

SHARE = 0.85
"""Of the free memory that is counted on: libraries and fragments take the rest."""
PEAK_ACTIVATIONS = 1.25
"""Bytes live at the peak per byte of activations; measured on VGG-11."""


class NotEnoughMemory(BasegraphError):
    """A run would not fit."""


def bytes_of_data(dataset: Dataset) -> int:
    """Bytes of the images and labels on the device, whatever the number of runs."""
    splits = (dataset.train, dataset.test)
    return sum(split.inputs.nbytes + split.targets.nbytes for split in splits)


def bytes_of_run(
    config: RunConfig,
    model: FlatModel,
    dataset: Dataset,
    device: torch.device,
    method: Method | None = None,
) -> int:
    """Bytes that the nodes of one run take: models, states, gradients and activations.

    Counted are arrays that live at the same time at the peak, which for captured steps is when
    these are tried out. On an H200 the peaks of `gpt-20m` with `adamw` in bf16 were 5 to 7 % below:

    | nodes | tokens in a step | estimated | measured |
    | --- | --- | --- | --- |
    | 8 | 131,072 | 17.8 GiB | 16.9 GiB |
    | 8 | 32,768 | 10.5 GiB | 9.9 GiB |
    | 25 | 128,000 | 32.5 GiB | 30.4 GiB |

    Args:
        config: The run.
        model: Its model.
        dataset: Its data, for the shape of a sample.
        device: Where it would be trained.
        method: Its method, where that is not the configuration's.

    """
    captured = device.type == "cuda" and config.capture
    vectors = _vectors(within_outer(method or algorithm(config.algorithm), config), captured)
    chosen = wire(config.wire)
    if not chosen.keeps(torch.float32):  # what is packed and unpacked, and what neighbors know
        vectors += 4 + (2 * max(1, config.nodes.bit_length()) if chosen.links else 0)
    if isinstance(model.module, GPT) and dataset.has_tokens:
        tokens = config.batch * dataset.shape[0]
        activations = _of_transformer(config, model.module, tokens, device)
    else:
        example = torch.as_tensor(dataset.example())
        activations = 4 * _activations(model.module, example) * config.batch * PEAK_ACTIVATIONS
    if device.type == "cpu" and model.has_convolutions:
        activations /= config.nodes  # one node after another
    return int(config.nodes * (4 * vectors * model.size + activations))


def fit(
    config: RunConfig,
    model: FlatModel,
    dataset: Dataset,
    device: torch.device,
    method: Method | None = None,
) -> int:
    """How many such runs fit on a device side by side.

    Neither the topology nor the split of the data is needed: this can be asked before the work.

    Args:
        config: The run.
        model: Its model.
        dataset: Its data.
        device: Where it would be trained.
        method: Its method, where that is not the configuration's.

    Raises:
        NotEnoughMemory: If not even one fits.

    """
    free = SHARE * free_memory(device) - bytes_of_data(dataset)
    need = bytes_of_run(config, model, dataset, device, method)
    count = int(free // need)
    if count < 1:
        nodes = max(0, int(free // (need / config.nodes)))
        raise NotEnoughMemory(
            f"{config.model} with {config.nodes} nodes and batch {config.batch} needs about "
            f"{need / 2**30:.1f} GiB on {device}, where {max(free, 0) / 2**30:.1f} GiB can be "
            f"had: {f'at most {nodes} nodes fit, or a smaller batch' if nodes else 'no node fits'}"
        )
    return count


def free_memory(device: torch.device) -> int:
    """Bytes that can be allocated on a device.

    On a GPU, what earlier runs of this process have left is given back first: their graphs, which
    refer to each other, and the memory that torch keeps for later.
    """
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(device)[0]
    return available_memory()


def _of_transformer(config: RunConfig, module: GPT, tokens: int, device: torch.device) -> float:
    """Bytes for one node's tokens: what the layers keep, and the gradients and logits of the loss.

    With autograd, a block keeps the residual stream twice, what is normalized and what is made of
    it; queries, keys and values, two of them rotated; the attention's result, and again as a
    product takes it; gate and up, and what the feed-forward network makes of them. With the
    backward pass of `gpt_gradients.py`, every array once, no residual stream, all matrices rounded
    at once, and gradients of matrices in no other place than the flat vector.
    """
    width, ffn, blocks = module.width, module.ffn, len(module.blocks)
    if by_hand(module, device, config.precision):
        kept = blocks * (6 * width + 3 * ffn) + 8 * width + ffn
        matrices = sum(parameter.numel() for parameter in module.parameters())
    else:
        kept = blocks * (13 * width + 4 * ffn) + 4 * width
        matrices = 2 * module.vocabulary * width  # rounded, and its gradient
    chunk = CHUNK_ON_GPU if device.type == "cuda" else CHUNK_ON_CPU
    logits = min(tokens * module.vocabulary, max(chunk / config.nodes, module.vocabulary))
    return (2 if config.precision == "bf16" else 4) * (tokens * kept + logits + matrices)


def _vectors(method: Method, captured: bool) -> int:
    """Vectors of the model's size that a node has at the peak of a step.

    x and the state; gradients, and what a step moves to. Where steps are captured, x and the state
    once more to be written, but for what only some steps change, and a copy of both while the step
    is tried out.
    """
    state = method.init(torch.zeros(1, 2))._asdict()
    held = ["x", *(name for name, part in state.items() if part.shape[-1] == 2)]
    written = [name for name in held if name not in method.slow]
    return len(held) + 2 + (len(written) + len(held) if captured else 0)


def _activations(module: nn.Module, example: Tensor) -> int:
    """Numbers that one sample leaves behind: every layer's output and what convolutions unfold."""
    total = 0
    for layer, output in layer_outputs(module, example):
        total += output.numel()
        if isinstance(layer, nn.Conv2d):
            total += layer.weight[0].numel() * output.numel() // layer.out_channels
    return total
