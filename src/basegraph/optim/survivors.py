"""What nodes save when one of them is lost, and how any number of nodes begins again from it.

Every survivor writes a file of its own, on whatever machine it is. To begin again, all nodes tell
each other which files they see, and take the average of the models in them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from basegraph import checkpoint
from basegraph.errors import InvalidArgument
from basegraph.mixing.collectives import all_reduce
from basegraph.mixing.handshake import texts_of_all, together

PATTERN = "node-*.safetensors"
USED = ".used"
"""What the name of a file from which nodes have begun again ends in."""


class Restart(NamedTuple):
    """Where the nodes begin again."""

    x_d: Tensor
    """The average of the survivors' models."""
    step: int
    """After so many steps: the most that a survivor had made."""
    survivors: list[int]
    before: int
    """How many nodes there were."""
    facts: dict[str, Any]
    """Whatever else the survivor with the most steps has saved."""

    def __str__(self) -> str:
        return (
            f"began again after step {self.step} from the average of {len(self.survivors)} of "
            f"{self.before} nodes"
        )


def save(folder: Path, node: int, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Path:
    """Write a survivor's file; facts must have n and step."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"node-{node}.safetensors"
    checkpoint.save(path, tensors, {"node": node, **facts})
    return path


def restart(
    folder: Path,
    like: Tensor,
    group: Any,
    counts: Callable[[dict[str, Any]], bool] = lambda facts: True,
) -> Restart | None:
    """Where to begin again, the same for all nodes; None where no node sees a survivor's file.

    `like` is a vector of the size and type that a model has, `counts` says by its facts whether
    a survivor is to be taken.
    """

    def look() -> dict[Path, dict[str, Any]]:
        found = {path: checkpoint.facts(path) for path in sorted(folder.glob(PATTERN))}
        return {path: facts for path, facts in found.items() if counts(facts)}

    here = together(look, group, like.device)
    texts = texts_of_all(json.dumps(list(here.values())), group, like.device)
    owners: dict[int, tuple[int, int]] = {}  # survivor -> (steps, minus the rank that reads it)
    facts: dict[int, dict[str, Any]] = {}
    for rank, text in enumerate(texts):
        for found in json.loads(text):
            mine = (found["step"], -rank)
            if mine > owners.get(found["node"], (-1, 0)):
                owners[found["node"]], facts[found["node"]] = mine, found
    if not owners:
        return None

    def add_up() -> Tensor:
        total = torch.zeros_like(like, dtype=torch.float64)
        for path, found in here.items():
            if owners[found["node"]] == (found["step"], -dist.get_rank(group)):
                x_d = checkpoint.load(path)[0]["x"]
                if x_d.numel() != like.numel():
                    raise InvalidArgument("checkpoint", str(path), "holds a model of another size")
                total += x_d.reshape(-1).to(total)
        return total

    total = together(add_up, group, like.device)
    all_reduce(total, group, "the restart")
    furthest = max(facts.values(), key=lambda found: found["step"])
    average = (total / len(owners)).to(like.dtype)
    return Restart(average, furthest["step"], sorted(owners), furthest["n"], furthest)


def set_aside(folder: Path) -> None:
    """Begin from these files once only; they stay, under another name."""
    for path in sorted(folder.glob(PATTERN)):
        try:
            path.replace(path.with_name(path.name + USED))
        except FileNotFoundError:  # another node on this machine was quicker
            continue
