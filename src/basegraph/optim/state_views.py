"""A flat state as views by parameter, as `torch.optim.Optimizer.state` holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor

from basegraph.engines.distributed.parameters import FlatParameters


class StateViews:
    """Parts of flat vectors that belong to the parameters of a model.

    Args:
        flat: The parameters.

    """

    def __init__(self, flat: FlatParameters) -> None:
        self._flat = flat
        self._known: dict[tuple[int, ...], list[dict[str, Tensor]]] = {}

    def parts(self, whole: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Each parameter with its part of a flat vector, or with all of what is not per one."""
        first = 0
        for p in self._flat.parameters:
            last = first + p.numel()
            yield p, whole[first:last] if len(whole) == len(self._flat.x_d) else whole
            first = last

    def by_parameter(self, vectors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        """The views of these vectors that belong to each parameter, by name."""
        views: list[dict[str, Tensor]] = [{} for _ in self._flat.parameters]
        for name, vector in vectors.items():
            for (p, part), shown in zip(self.parts(vector), views, strict=True):
                shown[name] = part.view(p.shape) if part.numel() == p.numel() else part
        return views

    def of(self, vectors: Mapping[str, Tensor]) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        """Each parameter with its views of these vectors, by name."""
        key = tuple(vector.data_ptr() for vector in vectors.values())
        if key not in self._known:  # a step may put the new state beside the old one: two at most
            self._known[key] = self.by_parameter(vectors)
        return zip(self._flat.parameters, self._known[key], strict=True)
