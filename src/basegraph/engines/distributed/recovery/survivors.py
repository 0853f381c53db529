"""How any number of nodes restarts from what the nodes before have saved.

Every node writes files of its own, on whatever machine it is: at a fault, and now and then. To
restart, all nodes report to each other which files they see, choose those that belong together, and
take the average of the models in them.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from basegraph.engines import checkpoint
from basegraph.engines.checkpoint import CheckpointError
from basegraph.engines.distributed.collectives import all_reduce
from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.membership.handshake import Refused, texts_of_all, together
from basegraph.engines.distributed.recovery.node_files import GENERATION, PATTERN

LOG = logging.getLogger("basegraph")
SURVIVOR_FACTS: checkpoint.Schema = {
    "node": checkpoint.integer(0),
    "n": checkpoint.integer(1),
    "step": checkpoint.integer(0),
    "generation": GENERATION,
    "periodic": checkpoint.integer(0, required=False),
}
"""What every node saves besides its model; `periodic` is 1 where it was not at a fault."""


class Restart(NamedTuple):
    """Where the nodes restart."""

    x_d: Tensor
    """The average of the survivors' models."""
    step: int
    """After so many steps: the most that a survivor had made."""
    survivors: list[int]
    before: int
    """How many nodes there were."""
    facts: dict[str, Any]
    """Whatever else the survivor with the most steps has saved."""
    files: frozenset[Path] = frozenset()
    """The survivors' files that this node sees."""

    def __str__(self) -> str:
        return (
            f"restarted after step {self.step} from the average of {len(self.survivors)} of "
            f"{self.before} nodes"
        )


class _File(NamedTuple):
    """A file that can be used."""

    path: str
    rank: int
    """The first node that sees it: it reads it."""
    facts: dict[str, Any]

    @property
    def key(self) -> tuple[int, int, int, int]:
        """Start, step, whether it is periodic, and node: the same of all copies."""
        return _key(self.facts)

    def __str__(self) -> str:
        return f"node {self.rank}: {self.path}" if self.rank else self.path


def restart(
    folder: Path,
    like: Tensor,
    membership: Membership,
    *,
    schema: checkpoint.Schema | None = None,
    left_out: Callable[[dict[str, Any]], str] = lambda facts: "",
) -> Restart | None:
    """Find out where to restart, the same for all nodes; None where there are no survivors.

    Files that cannot be used, or are left out, are named in a warning.

    Args:
        folder: Where the survivors' files are.
        like: A vector of the size that a model has.
        membership: Who the nodes are.
        schema: Facts that a survivor must have besides those of `SURVIVOR_FACTS`.
        left_out: Why a survivor with these facts is left out, or nothing; may raise
            `CheckpointError` where they cannot be true.

    Raises:
        BasegraphError: There are files, and none of them can be used.

    """
    schema = {**SURVIVOR_FACTS, **(schema or {})}
    seen = together(lambda: _look(folder, like, schema, left_out), membership)
    usable = [(str(path), facts) for path, facts in seen.usable.items()]
    report = {"usable": usable, "broken": seen.broken, "left_out": seen.left_out}
    texts = [json.loads(text) for text in texts_of_all(json.dumps(report), membership)]
    files: dict[tuple[int, ...], _File] = {}
    for rank, text in enumerate(texts):
        for path, facts in text["usable"]:
            files.setdefault(_key(facts), _File(path, rank, facts))
    broken = _once([text["broken"] for text in texts])
    while chosen := _choose(list(files.values())):
        total, bad = _add_up(chosen, like, membership)
        if not bad:
            break
        for file, reason in bad:
            broken.append(f"node {file.rank}: {reason}" if file.rank else reason)
            del files[file.key]
    if broken and not chosen:
        raise Refused(f"{broken[0]}; delete it to start without it")
    if membership.node == 0:
        others = [file for file in files.values() if file not in chosen]
        for line in [
            *broken,
            *_once([text["left_out"] for text in texts]),
            *(f"{file}: {_outdated(file, chosen)}" for file in others if not _spare(file)),
        ]:
            LOG.warning("left out: %s", line)
    if not chosen:
        return None
    all_reduce(total, membership, "the restart")
    furthest = max((file.facts for file in chosen), key=lambda facts: facts["step"])
    average = (total / len(chosen)).to(like.dtype)
    nodes = [file.facts["node"] for file in chosen]
    keys = {file.key for file in chosen}
    own = frozenset(path for path, facts in seen.usable.items() if _key(facts) in keys)
    return Restart(average, furthest["step"], nodes, furthest["n"], furthest, own)


def _key(facts: dict[str, Any]) -> tuple[int, int, int, int]:
    generation, periodic = facts.get("generation", 0), facts.get("periodic", 0)
    return generation, facts["step"], periodic, facts["node"]


def _choose(files: list[_File]) -> list[_File]:
    """Files that belong together, one of each node, by node; nothing where there are none.

    What survivors of a fault have saved belongs together, and what all nodes have saved after the
    same step. Of these the last: of the last start and, in it, after the most steps. Where there
    are none (some nodes' files are gone), most nodes of the last start.
    """
    sets: dict[tuple[int, int], dict[int, _File]] = {}
    for file in sorted(files, key=lambda file: file.key):  # of a node's own, the last wins
        generation, step, periodic, node = file.key
        sets.setdefault((generation, step if periodic else -1), {})[node] = file
    whole, parts = [], []
    for (generation, step), by_node in sets.items():
        last = max(file.facts["step"] for file in by_node.values())
        n = min(file.facts["n"] for file in by_node.values())
        if step < 0 or len(by_node) >= n:
            whole.append((generation, last, len(by_node), step))
        else:
            parts.append((generation, len(by_node), last, step))
    best = max(whole or parts, default=None)
    if best is None:
        return []
    chosen = sets[best[0], best[-1]]
    return [chosen[node] for node in sorted(chosen)]


def _add_up(
    chosen: list[_File], like: Tensor, membership: Membership
) -> tuple[Tensor, list[tuple[_File, str]]]:
    """The sum of the models that this node reads; and which files, of all, cannot be used."""

    def read() -> tuple[Tensor, list[tuple[int, str]]]:
        total, bad = torch.zeros_like(like, dtype=torch.float64), []
        for place, file in enumerate(chosen):
            if file.rank != membership.node:
                continue
            path = Path(file.path)
            try:
                x_d = checkpoint.load(path)[0]["x"].reshape(-1)
                checkpoint.require_tensors(path, {"x": x_d}, {"x": like.to(x_d.dtype)})
            except CheckpointError as error:
                bad.append((place, str(error)))
            else:
                total += x_d.to(total)
        return total, bad

    total, bad = together(read, membership)
    texts = texts_of_all(json.dumps(bad), membership)
    return total, [(chosen[place], said) for text in texts for place, said in json.loads(text)]


def _spare(file: _File) -> bool:
    """Whether its node has a newer one, as it should."""
    return file.path.endswith(".previous.safetensors")


def _outdated(file: _File, chosen: list[_File]) -> str:
    """Why a file is left out for these."""
    generation, step, _, _ = file.key
    if generation != chosen[0].key[0]:
        return f"belongs to start {generation} of the job, the others to start {chosen[0].key[0]}"
    others = max(other.facts["step"] for other in chosen)
    return f"is of step {step}; the others are of step {others}"


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
