"""Whether all of a vector's values are finite."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def finite(v: Tensor) -> bool:
    """Whether there is neither NaN nor infinity in it, in one quick pass.

    Example:
        >>> finite(torch.tensor([1.0, 3e38])), finite(torch.tensor([0.0, float("nan")]))
        (True, False)

    """
    if not v.numel():
        return True
    real = torch.view_as_real(v) if v.is_complex() else v
    # A sum is quicker than the extremes. One that is finite has only finite terms; one that is not
    # may have overflowed.
    if math.isfinite(real.sum().item()):
        return True
    return bool(torch.isfinite(torch.stack(torch.aminmax(real))).all())
