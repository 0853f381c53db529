"""AdamW on processes, in four ways: the same numbers as torch's own, written as a plain loop.

The plain loop is `torch.optim.AdamW` with two parameter groups per node, then a matrix product. The
others: `bg.Gossip` around that optimizer, `bg.DecentralizedOptimizer(algorithm="adamw")`, and the
step of a simulation, with its own weight decay. The same with an outer optimizer, which in the
plain loop is `torch.optim.SGD(nesterov=True)`.
"""

from __future__ import annotations

import sys
from itertools import product

import torch
import torch.distributed as dist
from torch import nn

import basegraph as bg
from basegraph.algorithms import communicates, round_index, with_outer
from basegraph.engines.stacked.mixer import average
from basegraph.engines.stacked.update import update
from basegraph.models.flat import FlatModel
from support.launch import leave

STEPS, LR, DECAY, OUTER_LR = 9, 0.02, 0.3, 0.6
TOLERANCE = 1e-12
"""In float64; the numbers are of order 1."""


def model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 2)).double()


def groups(net):
    """The usual two groups: norms and biases do not decay."""
    return [
        {"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": DECAY},
        {"params": [p for p in net.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]


def set_gradients(net, node, step):
    draws = torch.Generator().manual_seed(100 * step + node)
    samples = torch.randn(5, 4, generator=draws, dtype=torch.float64) + node
    net.zero_grad()
    net(samples).square().mean().backward()


def flat(net):
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def put(net, x_d):
    nn.utils.vector_to_parameters(x_d, net.parameters())


def mixed(t, step, local_steps, x_nd):
    if not communicates(step, local_steps):
        return x_nd
    return torch.tensor(t.round(round_index(step, local_steps)).matrix().toarray()) @ x_nd


def plain(t, order, local_steps):
    """All nodes in this process, with torch's optimizer and matrices."""
    nets = [model() for _ in range(t.n)]
    optimizers = [torch.optim.AdamW(groups(net), lr=LR) for net in nets]
    for step in range(STEPS):
        before = torch.stack([flat(net) for net in nets])
        for node, (net, optimizer) in enumerate(zip(nets, optimizers, strict=True)):
            set_gradients(net, node, step)
            optimizer.step()
        after = torch.stack([flat(net) for net in nets])
        if order == "combine-then-adapt":
            after = mixed(t, step, local_steps, before) + (after - before)
        else:
            after = mixed(t, step, local_steps, after)
        for net, x_d in zip(nets, after, strict=True):
            put(net, x_d)
    return torch.stack([flat(net) for net in nets])


def plain_outer(t, outer, local_steps):
    """The same with torch's SGD from anchors, on the average for all or on each node's own way."""
    nets, anchors = [model() for _ in range(t.n)], [model() for _ in range(t.n)]
    optimizers = [torch.optim.AdamW(groups(net), lr=LR) for net in nets]
    outers = [
        torch.optim.SGD(anchor.parameters(), lr=OUTER_LR, momentum=0.9, nesterov=True)
        for anchor in anchors
    ]
    for step in range(STEPS):
        for node, (net, optimizer) in enumerate(zip(nets, optimizers, strict=True)):
            set_gradients(net, node, step)
            optimizer.step()
        if not communicates(step, local_steps):
            continue
        ways = torch.stack([flat(a) - flat(x) for a, x in zip(anchors, nets, strict=True)])
        if outer.startswith("allreduce"):
            ways[:] = ways.mean(dim=0)
        for anchor, way, optimizer in zip(anchors, ways, outers, strict=True):
            parts = way.split([p.numel() for p in anchor.parameters()])
            for p, part in zip(anchor.parameters(), parts, strict=True):
                p.grad = part.view(p.shape).clone()
            optimizer.step()
        moved = torch.stack([flat(anchor) for anchor in anchors])
        if not outer.startswith("allreduce"):
            moved = mixed(t, step, local_steps, moved)
        for anchor, net, x_d in zip(anchors, nets, moved, strict=True):
            put(anchor, x_d.clone())
            put(net, x_d.clone())
    return torch.stack([flat(net) for net in nets])


def simulated(t, method, local_steps):
    """All nodes in this process, with the method and a row of weight decay."""
    net = model()
    decay = torch.cat(
        [
            torch.full((1, part.size), part.decays * DECAY, dtype=torch.float64)
            for part in FlatModel(net).decay_parts()
        ],
        dim=1,
    )
    x_nd = flat(net).repeat(t.n, 1)
    state = method.init(x_nd)
    for step in range(STEPS):
        gradients = []
        for node, x_d in enumerate(x_nd):
            put(net, x_d.clone())
            set_gradients(net, node, step)
            gradients.append(torch.cat([p.grad.reshape(-1) for p in net.parameters()]))

        def mix(v_nd, step=step):
            if method.centralized:
                return average(v_nd)
            return mixed(t, step, local_steps, v_nd)

        now = mix if communicates(step, local_steps) else None
        x_nd, state = update(method, x_nd, torch.stack(gradients), state, LR, now, decay)
    return x_nd


def on_processes(net, optimizer):
    for step in range(STEPS):
        set_gradients(net, dist.get_rank(), step)
        optimizer.step()
    rows = [torch.empty_like(flat(net)) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, flat(net))
    return torch.stack(rows)


def gossip(t, **options):
    net = model()
    optimizer = bg.Gossip(torch.optim.AdamW(groups(net), lr=LR), t, **options)
    made = on_processes(net, optimizer)
    if options.get("outer", "").startswith("allreduce"):
        counts_all_reduces(optimizer, flat(net).nbytes, STEPS // options["local_steps"])
    return made


def decentralized(t, algorithm="adamw", **options):
    net = model()
    optimizer = bg.DecentralizedOptimizer(groups(net), algorithm, lr=LR, topology=t, **options)
    made = on_processes(net, optimizer)
    if options.get("outer", "").startswith("allreduce"):
        counts_all_reduces(optimizer, flat(net).nbytes, STEPS // options["local_steps"])
    return made


def counts_all_reduces(optimizer, nbytes, count):
    """As many bytes as the simulator counts: those of the ring algorithm."""
    n = dist.get_world_size()
    assert optimizer.traffic.messages_sent == count * 2 * (n - 1)
    assert optimizer.traffic.bytes_sent == count * int(2 * (n - 1) * nbytes / n)


def main() -> None:
    dist.init_process_group("gloo")
    t = bg.topology(sys.argv[1], n=dist.get_world_size())
    orders = ("adapt-then-combine", "combine-then-adapt")
    for order, local_steps in product(orders, (1, 3)):
        options = {"order": order, "local_steps": local_steps}
        method = bg.algorithm("adamw", order=order)
        compare(
            (order, local_steps),
            lambda order=order, local_steps=local_steps: plain(t, order, local_steps),
            lambda method=method, local_steps=local_steps: simulated(t, method, local_steps),
            gossip=gossip(t, **options),
            decentralized=decentralized(t, **options),
            by_its_spec=decentralized(t, method.spec, local_steps=local_steps),
        )
    for name, local_steps in product(("dsgdm", "allreduce-sgd"), (1, 4)):
        outer = f"{name}:momentum=0.9,nesterov=true"
        options = {"outer": outer, "outer_lr": OUTER_LR, "local_steps": local_steps}
        method = with_outer(bg.algorithm("adamw"), bg.algorithm(outer), OUTER_LR)
        compare(
            (outer, local_steps),
            lambda outer=outer, local_steps=local_steps: plain_outer(t, outer, local_steps),
            lambda method=method, local_steps=local_steps: simulated(t, method, local_steps),
            gossip=gossip(t, **options),
            decentralized=decentralized(t, **options),
            composed_before=decentralized(t, method, local_steps=local_steps),
        )
    leave()


def compare(case, expected, simulated, **on_processes):
    """At node 0; the others have nothing to do meanwhile."""
    if dist.get_rank() > 0:
        return
    x_nd = expected()
    for name, other in {"simulated": simulated(), **on_processes}.items():
        apart = float((other - x_nd).abs().max())
        assert apart < TOLERANCE, (name, *case, apart)
        print("same:", name, *case, f"{apart:.0e}", flush=True)


if __name__ == "__main__":
    main()
