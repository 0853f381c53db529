"""The whole step as one CUDA graph: gather, augmentation, gradients, update and mixing.

One graph serves every step. What changes from step to step, the samples, the learning rate and the
round's peers and weights, are tensors that the graph reads and that are filled before a replay.

Shape legend: (n, B) nodes × batch; peers and weights (n, 1) or the dense round (n, n).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from basegraph.mixing.plan import plan
from basegraph.mixing.stacked import average, dense, one_neighbour
from basegraph.topology.round import Round

Body = Callable[[dict[str, Tensor], Tensor, Callable[[Tensor], Tensor]], Tensor]
"""(samples as planned, learning rate, mix) -> losses; moves x and the state in place."""


class RoundTensors:
    """A round as tensors that can be replaced by another round's without changing the graph."""

    def __init__(self, n: int, one_peer: bool, device: torch.device) -> None:
        self.one_peer = one_peer
        if one_peer:
            self.peers = torch.arange(n, device=device)
            self.weights = torch.zeros(n, 1, device=device)
            self.mix = one_neighbour(self.peers, self.weights)
        else:
            self.matrix = torch.eye(n, device=device)
            self.mix = dense(self.matrix)

    def values(self, r: Round | None, n: int, device: torch.device) -> tuple[Tensor, ...]:
        """A round's tensors, ready to be filled in; None is the round in which nobody talks."""
        if self.one_peer:
            if r is None:
                return torch.arange(n, device=device), torch.zeros(n, 1, device=device)
            peers, weights, _ = plan(r)
            return (
                torch.tensor(peers[:, 0], device=device),
                torch.tensor(weights, device=device, dtype=torch.float32),
            )
        whole = torch.eye(n) if r is None else torch.tensor(r.matrix().toarray())
        return (whole.to(device=device, dtype=torch.float32),)

    def fill(self, values: tuple[Tensor, ...]) -> None:
        """Make this the round that the graph reads."""
        mine = (self.peers, self.weights) if self.one_peer else (self.matrix,)
        for target, value in zip(mine, values, strict=True):
            target.copy_(value)


class CapturedStep:
    """A captured step and the tensors it reads."""

    def __init__(
        self,
        body: Body,
        inputs: dict[str, Tensor],
        moved: list[Tensor],
        rounds: RoundTensors | None,
        device: torch.device,
    ) -> None:
        self.inputs = {name: tensor.clone() for name, tensor in inputs.items()}
        self.lr = torch.zeros((), device=device)
        self.rounds = rounds
        mix = average if rounds is None else rounds.mix
        before = [tensor.clone() for tensor in moved]
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(3):  # libraries choose their kernels and allocate before the capture
                body(self.inputs, self.lr, mix)
        torch.cuda.current_stream(device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.losses = body(self.inputs, self.lr, mix)
        for tensor, value in zip(moved, before, strict=True):
            tensor.copy_(value)

    def __call__(
        self, inputs: dict[str, Tensor], lr: float, values: tuple[Tensor, ...] | None
    ) -> Tensor:
        """Make one step; returns the losses before it."""
        for name, tensor in inputs.items():
            self.inputs[name].copy_(tensor)
        self.lr.fill_(lr)
        if self.rounds is not None and values is not None:
            self.rounds.fill(values)
        self.graph.replay()
        return self.losses.clone()
