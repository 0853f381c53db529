"""The files of one node in the folder of a job: what it saves at a fault, and now and then.

The newest is `node-I.safetensors`, the one before `node-I.previous.safetensors`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from basegraph.engines import checkpoint
from basegraph.engines.checkpoint import CheckpointError
from basegraph.engines.distributed.membership.contract import Membership
from basegraph.engines.distributed.membership.handshake import together
from basegraph.engines.distributed.recovery import generation
from basegraph.engines.finite import finite
from basegraph.errors import InvalidArgument, RuntimeFailure
from basegraph.storage.files import CannotWrite, sync_folder, writable, writing

PATTERN = "node-*.safetensors"
USED = ".used"
"""The suffix of files that were used: no job starts from them any more."""
GENERATION = checkpoint.integer(0, required=False)
"""The start of the job that a file is of; files from before starts were counted have none."""

NOTHING: Mapping[str, Any] = {}


class NotSaved(RuntimeFailure):
    """A model that must not be saved: no job should start from it."""


REASONS = (NotSaved, CannotWrite, CheckpointError)
"""Why a node has not been saved."""


def writable_folder(path: str | Path) -> Path:
    """A folder for checkpoints, made if need be; one that cannot be written to is refused."""
    folder = Path(path).expanduser().absolute()  # scripts change their folder (hydra does)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidArgument("checkpoint", str(path), f"cannot be made: {reason}") from None
    writable("checkpoint", folder / "node.safetensors", force=True)
    return folder


def save(folder: Path, node: int, tensors: dict[str, Tensor], facts: dict[str, Any]) -> Path:
    """Write a node's file and keep the previous one. Facts must have n and step."""
    path = folder / f"node-{node}.safetensors"
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
    # Whenever this is killed, what was the newest file is there, under one name or another.
    fresh = path.with_suffix(".next.safetensors")
    checkpoint.save(fresh, tensors, {"node": node, **facts})
    with writing(path):
        if path.exists():
            path.replace(path.with_suffix(".previous.safetensors"))
        fresh.replace(path)
        sync_folder(folder)
    return path


def set_aside(folder: Path, keep: Collection[Path] = ()) -> None:
    """Rename the files of this folder except these, so that no job starts from them."""
    for path in sorted(folder.glob(PATTERN)):
        if path in keep:
            continue
        try:
            path.replace(path.with_name(path.name + USED))
        except FileNotFoundError:  # another node on this machine was quicker
            continue


class NodeFiles:
    """What this node saves in this start of the job; all nodes make it together."""

    def __init__(self, folder: Path, membership: Membership) -> None:
        self.folder = folder
        self.membership = membership
        self.generation = generation.agree(folder, _highest(folder), membership)

    @property
    def node(self) -> int:
        """The number of this node."""
        return self.membership.node

    @property
    def n(self) -> int:
        """How many nodes there are."""
        return self.membership.n

    def begin(self, keep: Collection[Path] = ()) -> None:
        """Declare earlier starts over, and set their files aside, except these.

        Those stay until this start has saved others. No node continues before all have done this:
        what it saves then would be taken for one of them.
        """

        def work() -> None:
            generation.begin(self.folder, self.generation)
            set_aside(self.folder, keep)

        together(work, self.membership)

    def save(
        self, x_d: Tensor, step: int, more: Mapping[str, Any] = NOTHING, *, periodic: bool = False
    ) -> Path:
        """Write this node's model after so many steps, and more facts about it.

        Raises:
            NotSaved: The model is not finite, or this start is over: no job should start from it.
            CannotWrite: The disk is full, say. The file before is intact.

        """
        if not finite(x_d):
            raise NotSaved(f"the model of node {self.node} has values that are not finite")
        now = generation.last(self.folder)
        if now > self.generation:
            raise NotSaved(
                f"node {self.node} belongs to start {self.generation} of the job; "
                f"{self.folder} is at start {now}"
            )
        facts = {"n": self.n, "step": step, "generation": self.generation}
        return save(
            self.folder, self.node, {"x": x_d}, {**facts, "periodic": int(periodic), **more}
        )

    def rescue(self, x_d: Tensor, step: int, more: Mapping[str, Any] = NOTHING) -> str:
        """Save this node at a fault.

        Returns:
            Where it is saved, or why not: the fault itself is what must be reported.

        """
        try:
            path = self.save(x_d, step, more)
        except REASONS as error:
            return f"not saved: {error}"
        return f"saved node {self.node} after {step} steps in {path}"


def _highest(folder: Path) -> int:
    """The last start that a file here is of; those that cannot be read are reported elsewhere."""
    highest = 0
    for path in folder.glob(PATTERN):
        try:
            facts, _ = checkpoint.header(path, {"generation": GENERATION})
        except CheckpointError:
            continue
        highest = max(highest, facts.get("generation", 0))
    return highest
