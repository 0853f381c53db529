"""`save_checkpoint`: all nodes in one checkpoint, complete or not at all."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.state_dict_saver import async_save, save

from basegraph.engines.distributed.membership.handshake import texts_of_all, together
from basegraph.engines.distributed.stamp import OutOfStep
from basegraph.errors import InvalidArgument, RuntimeFailure
from basegraph.optim.checkpoints import folder as folders
from basegraph.optim.checkpoints.contents import NodeContents, require_ours
from basegraph.optim.checkpoints.storage import NodesWriter, group_for_checkpoints, reason
from basegraph.optim.node_optimizer import NodeOptimizer
from basegraph.storage.inputs import MAX_TEXT_BYTES
from basegraph.topologies.core.integers import at_least

LOG = logging.getLogger("basegraph")
PHASE = "save_checkpoint()"
"""What messages about lost nodes call this."""
_UNDER_WAY: WeakKeyDictionary[NodeOptimizer, Future[Path]] = WeakKeyDictionary()
"""What is written in the background, by optimizer."""


class NotSaved(RuntimeFailure):
    """A checkpoint could not be written; the one before is intact."""


def save_checkpoint(
    folder: str | Path,
    model: nn.Module,
    optimizer: NodeOptimizer,
    *,
    extra: Mapping[str, Any] | None = None,
    keep: int = 2,
    background: bool = False,
) -> Future[Path]:
    """Save the models and optimizer states of all nodes in one checkpoint.

    All processes of all nodes must call it after the same step. The folder must be the same for all
    of them, as on a shared disk. Nothing counts as saved before everything is on disk: if the job
    is killed meanwhile, `load_checkpoint` takes the checkpoint before.

    Args:
        folder: Where the checkpoints are; made if need be.
        model: The module that is trained: plain, in DDP, or sharded by FSDP2.
        optimizer: `bg.Gossip` or `bg.DecentralizedOptimizer` of its parameters.
        extra: What else to save, such as an epoch or a scheduler's state: anything that JSON can
            write. That of node 0 is kept.
        keep: How many checkpoints stay in the folder.
        background: Copy the tensors and return; they are written while training goes on. The next
            call waits until they are. Call the future's `result()` before the process group is
            destroyed, or the script ends.

    Returns:
        A future of the checkpoint's path. Without `background` it is done.

    Raises:
        InvalidArgument: Something cannot be saved.
        NotSaved: The checkpoint could not be written, without `background`.
        PeerLost: A node did not answer.

    Example:
        >>> import tempfile, torch, warnings
        >>> import basegraph as bg
        >>> warnings.simplefilter("ignore")  # a single node: no torchrun
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = bg.Gossip(torch.optim.SGD(model.parameters(), lr=0.1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = bg.save_checkpoint(folder, model, optimizer, extra={"epoch": 3}).result()
        ...     path.name, bg.load_checkpoint(folder, model, optimizer).extra
        ('000001-step-0', {'epoch': 3})
        >>> torch.distributed.destroy_process_group()  # at the end of a script

    """
    membership = require_fixed(optimizer, PHASE)
    at_least(1, keep=keep)
    wait_for_background()
    optimizer.require_own_model(PHASE)

    def prepare() -> tuple[NodeContents, str, str]:
        folders.require_folder(folder)
        contents = NodeContents(model, optimizer)
        return contents, contents.options(), _json(extra or {})

    contents, options, extra_text = together(prepare, membership, PHASE)
    step, node = optimizer.gossip_step, membership.node
    everyone = [
        json.loads(text)
        for text in texts_of_all(json.dumps([step, options, extra_text]), membership, PHASE)
    ]
    for other, (theirs, *_) in enumerate(everyone):
        if theirs != everyone[0][0]:
            raise OutOfStep(
                f"node {other} calls {PHASE} after {theirs} steps, node 0 after {everyone[0][0]}"
            )
    known = list(dict.fromkeys(options for _, options, _ in everyone))
    facts = folders.Facts(
        step,
        membership.n,
        contents.kind,
        known,
        [known.index(options) for _, options, _ in everyone],
        {},
        json.loads(everyone[0][2]),
    )
    group = group_for_checkpoints(membership.timeout)
    number = _next_number(Path(folder), group)
    writer = NodesWriter(
        folders.unfinished(Path(folder), number),
        dist.get_world_size(group),
        lambda: folders.finish(Path(folder), number, facts, keep),
    )
    tensors = {
        f"nodes.{node}.{name}": tensor
        for name, tensor in {**contents.model, **contents.optimizer}.items()
    }
    # What several processes of a node hold (buffers, say) is the first one's.
    planner = DefaultSavePlanner(dedup_save_to_lowest_rank=True)
    path = folders.path_of(Path(folder), number, step)
    if not background:
        done: Future[Path] = Future()
        try:
            save(tensors, storage_writer=writer, planner=planner, process_group=group)
        except (Exception, CheckpointException) as error:
            raise _not_saved(path, error) from None
        done.set_result(path)
        return done
    writing = async_save(tensors, storage_writer=writer, planner=planner, process_group=group)
    assert isinstance(writing, Future)
    _UNDER_WAY[optimizer] = _path_when_done(writing, path)
    return _UNDER_WAY[optimizer]


def wait_for_background() -> None:
    """Wait until all that is being written is written, or has failed, which was logged.

    Until then the process group for checkpoints is in use.
    """
    for writing in list(_UNDER_WAY.values()):
        writing.exception()
    _UNDER_WAY.clear()


def require_fixed(optimizer: NodeOptimizer, call: str) -> Any:
    """The membership of an optimizer that can be saved; others are refused."""
    require_ours(optimizer)
    if optimizer.membership.epoch:
        raise InvalidArgument(
            "optimizer",
            type(optimizer).__name__,
            f'{call} is for membership="fixed"; where nodes join and leave, use checkpoint=',
        )
    return optimizer.membership


def _next_number(folder: Path, group: Any) -> int:
    """The number of the next checkpoint, which the first process says."""
    number = torch.zeros(1, dtype=torch.int64)
    if dist.get_rank(group) == 0:
        folders.remove_unfinished(folder)
        number += 1 + max(folders.complete(folder), default=0)
    dist.broadcast(number, dist.get_global_rank(group, 0), group=group)
    return int(number)


def _json(extra: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(dict(extra))
    except (TypeError, ValueError) as error:
        raise InvalidArgument("extra", extra, f"must be what JSON can write: {error}") from None
    if len(text) > MAX_TEXT_BYTES // 2:
        raise InvalidArgument(
            "extra", f"{len(text)} bytes", f"must be at most {MAX_TEXT_BYTES // 2}"
        )
    return text


def _path_when_done(writing: Future[Any], path: Path) -> Future[Path]:
    """What is done when the other is; a failure is logged, in case it is not asked for."""
    done: Future[Path] = Future()

    def tell(written: Future[Any]) -> None:
        error = written.exception()
        if error is None:
            done.set_result(path)
        else:
            done.set_exception(_not_saved(path, error))
            LOG.warning("%s", _not_saved(path, error))

    writing.add_done_callback(tell)
    return done


def _not_saved(path: Path, error: BaseException) -> NotSaved:
    why = reason(error)
    if not dist.is_initialized():
        why = "the process group was destroyed before; call result() on the future first"
    return NotSaved(f"{path}: not saved: {why}")
