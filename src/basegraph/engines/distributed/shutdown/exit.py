"""So that a script ends as quietly as it ran.

`torch.distributed.nn.functional` takes the process group that is there when it is first imported as
a default argument, and the first step of any torch optimizer imports it. From then on
`destroy_process_group` cannot end gloo's threads; they live until the interpreter goes, and one
that only then lets go of a tensor aborts the process: "terminate called without an active
exception" (pytorch/pytorch issue 190489).
"""

from __future__ import annotations

from types import FunctionType

import torch.distributed as dist


def let_groups_go() -> None:
    """Have those default arguments say None, which means the same group."""
    from torch.distributed.nn import functional

    for function in vars(functional).values():
        if isinstance(function, FunctionType) and function.__defaults__:
            function.__defaults__ = tuple(
                None if isinstance(default, dist.ProcessGroup) else default
                for default in function.__defaults__
            )
