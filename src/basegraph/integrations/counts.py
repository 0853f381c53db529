"""How many batches or steps every node has: by a tensor, since objects would be sent as pickles."""

from __future__ import annotations

import torch
import torch.distributed as dist


def counts_of_nodes(count: float, device: torch.device) -> list[float]:
    """The number of every process, in their order.

    Args:
        count: The number of this process; infinite where it is not known.
        device: Where the process group's collectives take tensors from.

    """
    mine = torch.tensor([float(count)], dtype=torch.float64, device=device)
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    return [int(v) if v.isfinite() else float(v) for v in every]
