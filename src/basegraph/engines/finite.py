"""Whether all of a vector's values are finite."""

from __future__ import annotations

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
    return bool(torch.isfinite(torch.stack(torch.aminmax(real))).all())
