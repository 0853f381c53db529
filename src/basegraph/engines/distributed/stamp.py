"""What a message belongs to, so that messages are never mixed up.

Every message is announced by a stamp, a few integers under a tag of their own. Nodes that call
`step()`, `consensus()` or `averaged()` unequally often then learn so from each other's stamps,
instead of averaging what does not belong together.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from basegraph.errors import RuntimeFailure

PHASES = ("step()", "consensus()", "averaged()", "two-state consensus()", "two-state averaged()")
"""The calls in which nodes exchange vectors, and how, where there are several ways."""
CONTENTS = ("parameters", "buffers")


class OutOfStep(RuntimeFailure):
    """Nodes that should exchange vectors are at different calls or steps."""


class Stamp(NamedTuple):
    """The call, the step and the round that a vector is sent in."""

    phase: str
    """One of `PHASES`."""
    step: int
    """Steps that the node had completed."""
    number: int = 0
    """Which round, counted on over periods."""
    content: str = "parameters"
    """One of `CONTENTS`."""
    optimizer: int = 0
    """Which of the optimizers of a process group, in the order in which they were built."""
    size: int = 0
    """Numbers in the vector."""
    epoch: int = 0
    """Which membership this belongs to, where nodes join and leave."""

    @property
    def when(self) -> str:
        """The call that the vector is sent in, in words."""
        in_step = self.phase == "step()"
        return f"step {self.step}" if in_step else f"{self.phase} after {self.step} steps"

    def pack(self, device: torch.device, waited: float = 0.0) -> Tensor:
        """The stamp as a message, which also says how many seconds its sender has waited."""
        numbers = [PHASES.index(self.phase), self.step, self.number]
        numbers += [CONTENTS.index(self.content), self.optimizer, self.size, self.epoch]
        numbers.append(round(waited * 1e6))
        return torch.tensor(numbers, dtype=torch.int64, device=device)

    @staticmethod
    def empty(device: torch.device) -> Tensor:
        """Memory for such a message."""
        return torch.empty(8, dtype=torch.int64, device=device)

    @classmethod
    def unpack(cls, message: Tensor) -> tuple[Stamp, float]:
        """The stamp of a message, and how long its sender has waited."""
        phase, step, number, content, optimizer, size, epoch, waited = message.tolist()
        stamp = cls(PHASES[phase], step, number, CONTENTS[content], optimizer, size, epoch)
        return stamp, waited / 1e6

    def __str__(self) -> str:
        return f"{self.phase} after {self.step} steps, round {self.number}, {self.content}"


def require_same(mine: Stamp, theirs: Stamp, node: int, peer: int) -> None:
    """Refuse a message that belongs elsewhere, naming both places."""
    if mine == theirs:
        return
    if mine.epoch != theirs.epoch:
        raise OutOfStep(
            f"node {node} is in {mine} of membership {mine.epoch}, but node {peer} is in {theirs} "
            f"of membership {theirs.epoch}"
        )
    if mine._replace(size=theirs.size) == theirs:
        raise OutOfStep(
            f"node {node}: node {peer} sent {theirs.size} numbers in {theirs}; here there are "
            f"{mine.size}"
        )
    if mine.optimizer != theirs.optimizer:
        raise OutOfStep(
            f"node {node} is in {mine} of optimizer {mine.optimizer}, but node {peer} is in "
            f"{theirs} of optimizer {theirs.optimizer} (numbered as they were built on the process "
            f"group). All nodes must call several optimizers in one order; join them as "
            f"torch.distributed.algorithms.Join([first, second])"
        )
    raise OutOfStep(
        f"node {node} is in {mine}, but node {peer} is in {theirs}. All nodes must call step(), "
        f"consensus() and averaged() equally often; where nodes have different numbers of "
        f"batches, train inside `with optimizer.join():`"
    )
