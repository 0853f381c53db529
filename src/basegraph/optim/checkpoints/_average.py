"""`save_averaged`: the average of all models as one safetensors file, a torch `state_dict`."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor, nn

from basegraph.engines.distributed.local_shards import is_sharded
from basegraph.engines.distributed.membership.handshake import together
from basegraph.optim.checkpoints.contents import require_ours, tensors_of
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
    membership, path = optimizer.membership, Path(path)
    is_writer = membership.node == 0 and optimizer.is_first_of_node

    def check() -> None:
        if is_writer:
            writable("path", path, suffixes=(".safetensors",), force=True)

    together(check, membership, PHASE)
    with optimizer.averaged(how, network):
        tensors = _whole(model, keep=is_writer) if membership.node == 0 else {}

    def write() -> None:
        if is_writer:
            with replacing(path) as temporary:
                save_file(tensors, temporary)

    together(write, membership, PHASE)


def _whole(model: nn.Module, *, keep: bool) -> dict[str, Tensor]:
    """Parameters and buffers by name, in main memory; all processes of a node gather them."""
    tensors = {}
    for name, value in tensors_of(model).items():
        whole = value.full_tensor() if is_sharded(value) else value
        if keep:
            tensors[name] = whole.detach().cpu().contiguous().clone()
    return tensors
