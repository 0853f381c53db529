"""Arithmetic that is put off until it is known where its outcome belongs.

A method says x - η(βu + g) with operators, each of which would fill a vector of its own. Handed
`Deferred` vectors instead of tensors, the same code only writes down what is to be computed; then
`into` computes it straight into the memory where it is wanted, a scaling and a sum in one pass.
What is not asked for is never computed, and what is asked for twice is computed once. Products,
quotients and powers of vectors, as AdamW has them, are `Elementwise`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Deferred:
    """A vector, or what makes it: `first` (if any) + `scale` · `second`.

    >>> g, u = Deferred.of(torch.tensor([1.0, 2.0])), Deferred.of(torch.tensor([10.0, 20.0]))
    >>> (0.5 * u + g).into(torch.empty(2))
    tensor([ 6., 12.])
    """

    def __init__(self, first: Deferred | None, scale: float, second: Deferred) -> None:
        self._first = first
        self._scale = scale
        self._second = second
        self._value: Tensor | None = None

    @classmethod
    def of(cls, value: Tensor) -> Deferred:
        """A vector that needs no computation."""
        known = cls.__new__(cls)
        known._value = value
        return known

    def into(self, out: Tensor) -> Tensor:
        """Compute it here, unless it has been computed elsewhere: then it is copied."""
        if self._value is not None:
            return out.copy_(self._value)
        self._value = self._compute(out)
        return self._value

    def value(self) -> Tensor:
        """The vector, wherever it is."""
        if self._value is None:
            self._value = self._compute(None)
        return self._value

    def numel(self) -> int:
        """How many numbers it has."""
        if self._value is not None:
            return self._value.numel()
        return max(part.numel() for part in (self._first, self._second) if part is not None)

    def _compute(self, out: Tensor | None) -> Tensor:
        second = self._second.value()
        if self._first is None:
            return torch.mul(second, self._scale, out=out)
        return torch.add(self._first.value(), second, alpha=self._scale, out=out)

    def _parts(self) -> tuple[float, Deferred]:
        """It as a multiple of something; what has a value or a sum is one times itself."""
        if self._value is None and self._first is None:
            return self._scale, self._second
        return 1.0, self

    def __mul__(self, scale: float | Deferred) -> Deferred:
        if isinstance(scale, Deferred):
            return Elementwise(torch.mul, self, scale)
        own, vector = self._parts()
        return Deferred(None, own * scale, vector)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float | Deferred) -> Deferred:
        if isinstance(divisor, Deferred):
            return Elementwise(torch.div, self, divisor)
        return self * (1 / divisor)

    def __pow__(self, exponent: float) -> Deferred:
        return Elementwise(torch.pow, self, exponent)

    def __abs__(self) -> Deferred:
        return Elementwise(torch.abs, self)

    def __add__(self, other: float | Deferred) -> Deferred:
        if not isinstance(other, Deferred):
            return Elementwise(torch.add, self, other)
        if isinstance(other, Elementwise) and other.is_pending(torch.div):
            return Elementwise(torch.addcdiv, self, *other.operands)
        scale, vector = other._parts()
        if vector is other and self._parts()[1] is not self:  # the scaling is on the left
            return other + self
        return Deferred(self, scale, vector)

    def __sub__(self, other: Deferred) -> Deferred:
        return self + -1.0 * other


class Elementwise(Deferred):
    """What a function of torch makes of vectors and numbers, one value after another.

    >>> u, g = Deferred.of(torch.tensor([4.0, 9.0])), Deferred.of(torch.tensor([1.0, 6.0]))
    >>> (g / u**0.5).value()
    tensor([0.5000, 2.0000])
    """

    def __init__(self, function: Callable[..., Tensor], *operands: Deferred | float) -> None:
        self._function = function
        self.operands = operands
        self._value = None

    def is_pending(self, function: Callable[..., Tensor]) -> bool:
        """Whether it is this function's, and has not been computed."""
        return self._function is function and self._value is None

    def numel(self) -> int:
        """How many numbers it has."""
        return max(part.numel() for part in self.operands if isinstance(part, Deferred))

    def _compute(self, out: Tensor | None) -> Tensor:
        values = (part.value() if isinstance(part, Deferred) else part for part in self.operands)
        return self._function(*values, out=out)

    def _parts(self) -> tuple[float, Deferred]:
        return 1.0, self


def deferred(vectors: Any) -> Any:
    """A state with its vectors as `Deferred` ones."""
    return type(vectors)(*(Deferred.of(v) for v in vectors))
