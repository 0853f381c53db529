"""What nodes save when one of them is lost, and how any number of nodes begins again from it.

Every survivor writes a file of its own, on whatever machine it is. To begin again, all nodes tell
each other which files they see, and take the average of the models in them.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from basegraph import checkpoint
from basegraph.checkpoint import CheckpointError
from basegraph.mixing.collectives import all_reduce
from basegraph.mixing.handshake import Refused, texts_of_all, together

LOG = logging.getLogger("basegraph")
PATTERN = "node-*.safetensors"
USED = ".used"
"""What the name of a file from which nodes have begun again ends in."""
FACTS: checkpoint.Schema = {
    "node": checkpoint.integer(0),
    "n": checkpoint.integer(1),
    "step": checkpoint.integer(0),
}
"""What every survivor saves besides its model."""


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
    *,
    schema: checkpoint.Schema | None = None,
    left_out: Callable[[dict[str, Any]], str] = lambda facts: "",
) -> Restart | None:
    """Where to begin again, the same for all nodes; None where there is no survivor to begin from.

    Files that cannot be used, or are left out, are named in a warning.

    Args:
        folder: Where the survivors' files are.
        like: A vector of the size that a model has.
        group: The process group.
        schema: Facts that a survivor must have besides those of `FACTS`.
        left_out: Why a survivor with these facts is left out, or nothing; may raise
            `CheckpointError` where they cannot be true.

    Raises:
        BasegraphError: There are files, and none of them can be used.

    """
    seen = together(lambda: _look(folder, like, {**FACTS, **(schema or {})}, left_out), group,
                    like.device)  # fmt: skip
    here = seen.usable
    told = {"usable": list(here.values()), "broken": seen.broken, "left_out": seen.left_out}
    texts = [json.loads(text) for text in texts_of_all(json.dumps(told), group, like.device)]
    owners: dict[int, tuple[int, int]] = {}  # survivor -> (steps, minus the rank that reads it)
    facts: dict[int, dict[str, Any]] = {}
    for rank, text in enumerate(texts):
        for found in text["usable"]:
            mine = (found["step"], -rank)
            if mine > owners.get(found["node"], (-1, 0)):
                owners[found["node"]], facts[found["node"]] = mine, found
    broken = _once([text["broken"] for text in texts])
    if broken and not owners:
        refused = Refused(f"{broken[0]}; remove it to begin without it")
        refused.quiet = dist.get_rank(group) != 0
        raise refused
    if dist.get_rank(group) == 0:
        for line in [*broken, *_once([text["left_out"] for text in texts])]:
            LOG.warning("left out: %s", line)
    if not owners:
        return None

    def add_up() -> Tensor:
        total = torch.zeros_like(like, dtype=torch.float64)
        for path, found in here.items():
            if owners[found["node"]] == (found["step"], -dist.get_rank(group)):
                x_d = checkpoint.load(path)[0]["x"].reshape(-1)
                checkpoint.require_tensors(path, {"x": x_d}, {"x": like.to(x_d.dtype)})
                total += x_d.to(total)
        return total

    total = together(add_up, group, like.device)
    all_reduce(total, group, "the restart")
    furthest = max(facts.values(), key=lambda found: found["step"])
    average = (total / len(owners)).to(like.dtype)
    return Restart(average, furthest["step"], sorted(owners), furthest["n"], furthest)


class _Seen(NamedTuple):
    """The survivors' files that a node sees."""

    usable: dict[Path, dict[str, Any]]
    broken: list[str]
    """Which cannot be used, and why."""
    left_out: list[str]


def _look(
    folder: Path,
    like: Tensor,
    schema: checkpoint.Schema,
    left_out: Callable[[dict[str, Any]], str],
) -> _Seen:
    seen = _Seen({}, [], [])
    for path in sorted(folder.glob(PATTERN)):
        try:
            facts, tensors = checkpoint.header(path, schema)
            kind, shape = tensors.get("x", ("nothing", ()))
            if "F" not in kind or math.prod(shape) != like.numel():
                raise CheckpointError(
                    f"{path}: the tensor 'x' is {kind} {shape}: must be {like.numel()} numbers"
                )
        except CheckpointError as error:
            seen.broken.append(str(error))
            continue
        try:
            reason = left_out(facts)
        except CheckpointError as error:
            seen.broken.append(f"{path}: {error}")
            continue
        if reason:
            seen.left_out.append(f"{path}: {reason}")
        else:
            seen.usable[path] = facts
    return seen


def _once(lines_of_nodes: list[list[str]]) -> list[str]:
    """The nodes' lines, each once, with the node's number where node 0 does not see it itself."""
    first: dict[str, int] = {}
    for node, lines in enumerate(lines_of_nodes):
        for line in lines:
            first.setdefault(line, node)
    return [f"node {node}: {line}" if node else line for line, node in first.items()]


def set_aside(folder: Path) -> None:
    """Begin from these files once only; they stay, under another name."""
    for path in sorted(folder.glob(PATTERN)):
        try:
            path.replace(path.with_name(path.name + USED))
        except FileNotFoundError:  # another node on this machine was quicker
            continue
