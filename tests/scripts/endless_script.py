"""Steps without end, one node per process, until something happens to one of them.

Usage: endless_script.py TIMEOUT FOLDER ORDER [WHAT NODE [SIGNAL]]. What happens to the node: it is
`lost` by that signal before step 8, or sends what is `not-a-number` at step 5.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch

import basegraph as bg
from basegraph.engines import checkpoint
from support.launch import warm_up


def main() -> int:
    torch.manual_seed(0)
    warm_up()
    torch.distributed.init_process_group("gloo")  # with torch's timeout: some nodes start slowly
    net = torch.nn.Linear(4, 3)
    optimizer = bg.DecentralizedOptimizer(
        net.parameters(),
        lr=0.1,
        topology="base:k=1",
        local_steps=2,
        order=sys.argv[3],
        timeout=float(sys.argv[1]),
        refuse_nonfinite=True,
        checkpoint=sys.argv[2],
    )
    node = torch.distributed.get_rank()
    what = sys.argv[4] if len(sys.argv) > 4 and node == int(sys.argv[5]) else "nothing"
    for step in range(10_000):
        net.zero_grad()
        net(torch.ones(2, 4)).square().sum().backward()
        if what == "lost" and step == 8:
            os.kill(os.getpid(), int(sys.argv[6]))
        if what == "not-a-number" and step == 5:
            net.weight.grad[0, 0] = torch.nan
        before = [p.detach().clone() for p in net.parameters()]
        try:
            optimizer.step()
        except bg.BasegraphError as error:
            same = all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
            saved, facts = checkpoint.load(Path(sys.argv[2]) / f"node-{node}.safetensors")
            flat = torch.cat([p.reshape(-1) for p in before])
            kept = torch.equal(saved["x"], flat) and facts["step"] == step
            print(f"stopped at step {step}, as it was: {same and kept}; {error}", flush=True)
            return 1
        if step == 3:
            print("going", flush=True)
        time.sleep(0.01)
    return 0


if __name__ == "__main__":
    sys.exit(main())
