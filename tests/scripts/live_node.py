"""One node that joins and leaves, and writes what happens to it as lines of JSON.

Usage: live_node.py SETTINGS, JSON with: goal (a file that will say at which step to end), kind
("decentralized", or a torch optimizer for Gossip), algorithm, options (of the optimizer), size,
pause (seconds of a step), evaluates (every so many steps), still_after (changes after which
gradients are zero), how (the average at the end is taken), dies (where it kills itself).
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

import basegraph as bg
from basegraph.engines.distributed import turnover

DTYPES = {"bfloat16": torch.bfloat16}


def die(*arguments: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def average(optimizer: Any, settings: dict[str, Any]) -> None:
    if settings.get("dies") == "averaging":
        die()
    optimizer.consensus(how=settings.get("how", "auto"))


def evaluate(optimizer: Any, settings: dict[str, Any]) -> None:
    """At the top of the loop, as docs/howto/live.md asks for."""
    if optimizer.gossip_step % settings.get("evaluates", 10**9) == 0 < optimizer.gossip_step:
        with optimizer.averaged():
            pass


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.manual_seed(int.from_bytes(os.urandom(4), "big"))
    net = torch.nn.Linear(settings.get("size", 6), 2, bias=False)
    options: dict[str, Any] = {"timeout": 300.0, **settings.get("options", {})}
    if "wire" in options:
        options["wire"] = DTYPES[options["wire"]]
    if settings.get("dies") == "taking over":
        turnover.take_over = die
    kind = settings.get("kind", "decentralized")
    optimizer: Any
    if kind == "decentralized":
        algorithm = settings.get("algorithm", "dsgdm")
        optimizer = bg.DecentralizedOptimizer(
            net.parameters(), algorithm, lr=0.01, membership="live", **options
        )
    else:
        inner = getattr(torch.optim, kind)(net.parameters(), lr=0.01)
        optimizer = bg.Gossip(inner, membership="live", **options)
    if settings.get("dies") == "handing over":
        turnover.hand_over = die
    still_after = settings.get("still_after", 10**9)
    changes = 0

    def write(event: str, **facts: Any) -> None:
        model = net.weight.detach().reshape(-1).double().tolist()
        facts |= {"step": optimizer.gossip_step, "epoch": optimizer.membership.epoch}
        print(json.dumps({"event": event, "x": model, **facts}), flush=True)

    def changed(change: Any) -> None:
        nonlocal changes
        changes += 1
        if changes >= still_after:
            still()
        write("change", **change._asdict() | {"text": str(change), "spec": optimizer.topology.spec})

    def still() -> None:
        for p in net.parameters():
            p.grad = torch.zeros_like(p)

    write("change", members=optimizer.members, node=optimizer.membership.node, replaced=None)
    optimizer.on_membership_change = changed
    goal, pull = Path(settings["goal"]), torch.randn_like(net.weight)
    while True:
        evaluate(optimizer, settings)
        if changes >= still_after:
            still()
        else:
            optimizer.zero_grad()
            (net.weight - pull).square().sum().backward()
        time.sleep(settings.get("pause", 0.005))
        before = optimizer.membership.epoch
        optimizer.step()
        write("step", new=optimizer.membership.epoch != before)
        if goal.exists() and optimizer.gossip_step >= int(goal.read_text() or "0") > 0:
            break
    average(optimizer, settings)
    write("end", members=optimizer.members)


if __name__ == "__main__":
    faulthandler.enable(sys.stderr)
    main()
