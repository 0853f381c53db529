"""Gathering and augmenting whole batches of all nodes at once, on any device.

Shape legend: B samples (of all nodes together), C channels, H rows, W columns.
"""

from __future__ import annotations

import torch
from torch import Tensor

from basegraph.data.dataset import Dataset
from basegraph.data.plan import PADDING


def normalization(dataset: Dataset, how: str) -> tuple[Tensor, Tensor] | None:
    """What is subtracted from every channel of images on 0..1, and what they are divided by.

    Args:
        dataset: The images.
        how: `dataset` (mean and standard deviation of the training set), `half` (1/2 and 1/2) or
            `none` (0 and 1).

    Returns:
        Two vectors of float32; None where inputs are not images.

    """
    if not dataset.has_images:
        return None
    statistics = dataset.statistics() if how == "dataset" else None
    if statistics is not None:
        mean, std = statistics
        return torch.as_tensor(mean), torch.as_tensor(std)
    channels = dataset.shape[0]
    values = (0.5, 0.5) if how == "half" else (0.0, 1.0)
    return torch.full((channels,), values[0]), torch.full((channels,), values[1])


def gather(
    images: Tensor,
    sample: Tensor,
    mean: Tensor | None,
    std: Tensor | None,
    crop: Tensor | None = None,
    flip: Tensor | None = None,
    erase: Tensor | None = None,
    padding: str = "zero",
) -> Tensor:
    """Normalized samples (..., C, H, W) of images (N, C, H, W), as planned.

    What lies outside a cropped image is zero after normalization, or with `padding="black"` before
    it; what is erased is zero after it. Inputs that are not images have neither mean nor std, and
    are taken as they are; integers become int64.
    """
    shape = sample.shape
    if mean is None or std is None:
        return taken(images, sample)
    _, channels, height, width = images.shape
    index = sample.reshape(-1)
    if crop is None and flip is None:
        x_bchw = _normalized(images[index], mean, std)
    else:
        rows = torch.arange(height, device=images.device).expand(len(index), height)
        columns = torch.arange(width, device=images.device).expand(len(index), width)
        if flip is not None:
            columns = torch.where(flip.reshape(-1, 1), width - 1 - columns, columns)
        if crop is not None:
            shift = crop.reshape(-1, 2) - PADDING
            rows, columns = rows + shift[:, :1], columns + shift[:, 1:]
        inside_r = (rows >= 0) & (rows < height)
        inside_c = (columns >= 0) & (columns < width)
        rows, columns = rows.clamp(0, height - 1), columns.clamp(0, width - 1)
        picked = images.permute(0, 2, 3, 1)[
            index[:, None, None], rows[:, :, None], columns[:, None, :]
        ].permute(0, 3, 1, 2)
        inside = (inside_r[:, :, None] & inside_c[:, None, :])[:, None]
        if padding == "black":
            x_bchw = _normalized(picked * inside, mean, std)
        else:
            x_bchw = _normalized(picked, mean, std) * inside
    if erase is not None:
        x_bchw = x_bchw * ~_boxes(erase.reshape(-1, 4), height, width)
    return x_bchw.reshape(*shape, channels, height, width)


def taken(rows: Tensor, sample: Tensor) -> Tensor:
    """These rows; integers as int64, whatever they are stored in, as models and losses take them.

    >>> taken(torch.tensor([[3], [4]], dtype=torch.uint8), torch.tensor([1]))
    tensor([[4]])
    """
    chosen = rows[sample]
    return chosen if chosen.is_floating_point() else chosen.long()


def _normalized(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    x = images.to(mean.dtype)
    if not images.is_floating_point():
        x = x / 255
    return (x - mean[:, None, None]) / std[:, None, None]


def _boxes(erase: Tensor, height: int, width: int) -> Tensor:
    """(B, 4) top, left, height, width -> (B, 1, H, W): True inside the box."""
    top, left, h, w = (part[:, None] for part in erase.unbind(1))
    rows = torch.arange(height, device=erase.device)
    columns = torch.arange(width, device=erase.device)
    inside_r = (rows >= top) & (rows < top + h)
    inside_c = (columns >= left) & (columns < left + w)
    return (inside_r[:, :, None] & inside_c[:, None, :])[:, None]
