"""`save_averaged`: the average of all models as one safetensors file, a torch `state_dict`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor, nn

from basegraph.engines.distributed.local_shards import is_sharded
from basegraph.engines.distributed.membership.handshake import together
from basegraph.errors import BasegraphError, InvalidArgument
from basegraph.optim.checkpoints._save import wait_for_background
from basegraph.optim.checkpoints.contents import require_ours, require_trained, tensors_of
from basegraph.optim.checkpoints.storage import group_for_checkpoints
from basegraph.optim.node_optimizer import NodeOptimizer
from basegraph.storage.files import replacing, writable
from basegraph.topologies.analysis.network import Network

PHASE = "save_averaged()"


def save_averaged(
    path: str | Path,
    model: nn.Module,
    optimizer: NodeOptimizer,
    *,
    how: str = "auto",
    network: Network | None = None,
) -> None:
    """Write the average of all nodes' models to a safetensors file, whole parameters by name.

    All processes of all nodes must call it; one writes the file, which appears when it is complete.
    The nodes keep their own models. `module.load_state_dict(safetensors.torch.load_file(path))`
    reads it, in a module that is not sharded.

    Args:
        path: The file, which must end in `.safetensors`; one that exists is replaced.
        model: The module that is trained: plain, in DDP, or sharded by FSDP2.
        optimizer: `bg.Gossip` or `bg.DecentralizedOptimizer` of its parameters.
        how: How the average is taken, as for `optimizer.consensus`.
        network: The network that "auto" is about, as for `optimizer.consensus`.

    Raises:
        InvalidArgument: The file cannot be written.
        PeerLost: A node did not answer.

    Example:
        >>> import tempfile, torch, warnings
        >>> import basegraph as bg
        >>> from safetensors.torch import load_file
        >>> warnings.simplefilter("ignore")  # a single node: no torchrun
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = bg.Gossip(torch.optim.SGD(model.parameters(), lr=0.1))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bg.save_averaged(f"{folder}/model.safetensors", model, optimizer)
        ...     model.load_state_dict(load_file(f"{folder}/model.safetensors"))
        <All keys matched successfully>
        >>> torch.distributed.destroy_process_group()  # at the end of a script

    """
    require_ours(optimizer)
    require_trained(model, optimizer)
    wait_for_background()
    membership, path = optimizer.membership, Path(path)
    is_writer = membership.node == 0 and optimizer.is_first_of_node

    def check() -> None:
        if is_writer:
            writable("path", path, suffixes=(".safetensors",), force=True)

    _all_together(check, optimizer, path)
    with optimizer.averaged(how, network):
        tensors = _whole(model, keep=is_writer) if membership.node == 0 else {}

    def write() -> None:
        if is_writer:
            with replacing(path) as temporary:
                save_file(tensors, temporary)

    _all_together(write, optimizer, path)


def _all_together(call: Callable[[], None], optimizer: NodeOptimizer, path: Path) -> None:
    """Make a call at all processes of all nodes; a failure of one ends it for all.

    (`together` is about the processes of one place in their nodes.)
    """
    membership, failure = optimizer.membership, None
    try:
        together(call, membership, PHASE)
    except BasegraphError as error:
        failure = error
    if dist.is_initialized() and dist.get_world_size() > membership.n:
        failed = torch.tensor([float(failure is not None)])
        dist.all_reduce(failed, group=group_for_checkpoints(membership.timeout))
        if failed and failure is None:
            failure = InvalidArgument("path", str(path), "was refused by the process that writes")
    if failure is not None:
        raise failure


def _whole(model: nn.Module, *, keep: bool) -> dict[str, Tensor]:
    """Parameters and buffers by name, in main memory; all processes of a node gather them."""
    tensors = {}
    for name, value in tensors_of(model).items():
        whole = value.full_tensor() if is_sharded(value) else value
        if keep:
            tensors[name] = whole.detach().cpu().contiguous().clone()
    return tensors
