"""A flat state as views by parameter, as `torch.optim.Optimizer.state` holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from basegraph.engines.distributed.local_shards import local
from basegraph.engines.distributed.parameters import NodeParameters


class StateViews:
    """Parts of flat vectors that belong to the parameters of a model.

    Args:
        flat: The parameters.

    """

    def __init__(self, flat: NodeParameters) -> None:
        self._flat = flat
        self._sizes = [shard.numel() for shard in flat.shards]
        self._known: dict[tuple[int, ...], list[dict[str, Tensor]]] = {}

    def _parts(self, whole: Tensor) -> list[Tensor]:
        """By parameter its part of a flat vector, or all of what is not per parameter."""
        if len(whole) != len(self._flat.x_d):
            return [whole] * len(self._sizes)
        return list(torch.split(whole, self._sizes))

    def by_parameter(self, vectors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        """The views of these vectors that belong to each parameter, by name."""
        views: list[dict[str, Tensor]] = [{} for _ in self._flat.parameters]
        for name, vector in vectors.items():
            for number, part in enumerate(self._parts(vector)):
                views[number][name] = part if part is vector else self._flat.shown(number, part)
        return views

    def of(self, vectors: Mapping[str, Tensor]) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        """Each parameter with its views of these vectors, by name."""
        key = tuple(vector.data_ptr() for vector in vectors.values())
        if key not in self._known:  # a step may put the new state beside the old one: two at most
            self._known[key] = self.by_parameter(vectors)
        return zip(self._flat.parameters, self._known[key], strict=True)

    def load(
        self, vectors: Mapping[str, Tensor], state: Mapping[Tensor, Mapping[str, Tensor]]
    ) -> None:
        """Copy what an optimizer's state holds by parameter into these vectors.

        Checkpoints of torch leave out frozen parameters: what belongs to them stays as it is.
        """
        for name, vector in vectors.items():
            for p, part in zip(self._flat.parameters, self._parts(vector), strict=True):
                if p.requires_grad or name in state.get(p, {}):
                    part.copy_(local(state[p][name]).reshape(-1))
