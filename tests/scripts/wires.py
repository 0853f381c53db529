"""Every wire between processes: as in the simulator, the average kept, bytes counted, resets."""

from __future__ import annotations

import torch
import torch.distributed as dist

import basegraph as bg
from basegraph.engines.stacked.wired import WiredMixer
from basegraph.wires import wire
from basegraph.wires.links import LinkTable
from support.launch import leave

SIZE = 700
CASES = [
    ("base:k=1", "bf16"),
    ("base:k=2", "int8"),
    ("one-peer-exponential", "fp8"),
    ("base:k=1", "int8:block=64,links=true"),
    ("ring", "topk:0.1"),
    ("base:k=1", "topk:0.05,step=1.0"),
    ("base:k=1", "randk:0.1"),
]


def starts(n: int) -> torch.Tensor:
    return torch.randn(n, SIZE, generator=torch.Generator().manual_seed(3))


def gathered(p: torch.Tensor) -> torch.Tensor:
    rows = [torch.empty_like(p) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, p.detach().contiguous())
    return torch.stack(rows)


def nodes_apart(spec: str, topology: str, **options: object):
    """An optimizer that only mixes: nodes begin alike, make a step, and are then set apart."""
    p = torch.nn.Parameter(torch.zeros(SIZE))
    optimizer = bg.Gossip(torch.optim.SGD([p], lr=0.0), topology, wire=spec, **options)
    p.grad = torch.zeros(SIZE)
    optimizer.step()
    assert not p.any()
    with torch.no_grad():
        p.copy_(starts(dist.get_world_size())[dist.get_rank()])
    return p, optimizer


def steps(optimizer: bg.Gossip, count: int) -> None:
    for _ in range(count):
        optimizer.step()


def as_in_one_process(topology: str, spec: str) -> None:
    n = dist.get_world_size()
    t = bg.topology(topology, n=n)
    p, optimizer = nodes_apart(spec, topology)
    mixer = WiredMixer(t, p.device, p.dtype, wire(spec))
    mixer.round(0)(torch.zeros(n, SIZE))
    x = starts(n)
    steps(optimizer, 25)
    for number in range(1, 26):
        x = mixer.round(number)(x)
    rows = gathered(p)
    off = (rows - x).abs().max()
    assert off < 1e-5, (topology, spec, off)
    drift = (rows.double().mean(0) - starts(n).double().mean(0)).abs().max()
    assert drift < 1e-6, (topology, spec, drift)

    arcs = sum(list(t.round(number).senders).count(dist.get_rank()) for number in range(26))
    expected = arcs * wire(spec).message_bytes(SIZE)
    if wire(spec).links:
        used = LinkTable(t).neighbors(dist.get_rank(), 26)
        expected += used * (4 * SIZE - wire(spec).message_bytes(SIZE))
    assert optimizer.traffic.bytes_sent == expected, (optimizer.traffic, expected)
    optimizer.consensus()
    assert torch.equal(gathered(p), p.expand(n, -1))


def overlapped() -> None:
    """The exchange behind the next gradient keeps the average, and brings nodes together."""
    n = dist.get_world_size()
    for spec in ("bf16", "int8", "topk:0.1", "randk:0.5"):
        p, optimizer = nodes_apart(spec, "base:k=1", order="combine-then-adapt")
        before = gathered(p)
        steps(optimizer, 12)
        with optimizer.averaged():  # drops an exchange that was begun
            assert torch.equal(gathered(p), p.expand(n, -1))
        steps(optimizer, 30)
        after = gathered(p)
        assert (after.double().mean(0) - before.double().mean(0)).abs().max() < 1e-6, spec
        assert (after - after.mean(0)).norm() < 0.2 * (before - before.mean(0)).norm(), spec


def resets() -> None:
    """After load_state_dict, links begin anew at both ends; one end alone is refused."""
    p, optimizer = nodes_apart("topk:0.1", "base:k=1")
    steps(optimizer, 7)
    before = gathered(p).double().mean(0)
    optimizer.load_state_dict(optimizer.state_dict())
    sent = optimizer.traffic.bytes_sent
    optimizer.step()
    whole = (optimizer.traffic.bytes_sent - sent) % (4 * SIZE)
    assert whole == 0, whole
    steps(optimizer, 10)
    assert (gathered(p).double().mean(0) - before).abs().max() < 1e-6


def refused() -> None:
    p = torch.nn.Parameter(torch.zeros(9))
    for arguments, complaint in (
        ({"algorithm": "gradient-tracking", "wire": "topk:0.01"}, "not gradient-tracking"),
        ({"algorithm": "dsgdm-ceca", "topology": "ceca", "wire": "int8"}, "not dsgdm-ceca"),
        ({"algorithm": "allreduce-sgd", "wire": "int8"}, "not allreduce-sgd"),
        ({"topology": "one-peer-exponential", "wire": "topk:0.01"}, "directed rounds"),
        ({"topology": "one-peer-u-equidyn", "wire": "topk:0.01"}, "random rounds"),
    ):
        try:
            bg.DecentralizedOptimizer([p], lr=0.1, **arguments)
        except bg.InvalidArgument as error:
            assert complaint in str(error), error
            assert "\n" not in str(error)
        else:
            raise AssertionError(arguments)
    try:
        bg.Gossip(torch.optim.SGD([p], lr=0.1), "ring", outer="gradient-tracking", wire="topk:0.1")
    except bg.InvalidArgument as error:
        assert "not gradient-tracking" in str(error), error


def not_finite() -> None:
    for spec in ("int8", "topk:0.1", "randk:0.01"):
        p, optimizer = nodes_apart(spec, "ring", timeout=60.0)
        with torch.no_grad():
            p[5] = float("nan")
        try:
            optimizer.step()
        except ValueError as error:
            assert "not finite" in str(error), error
        else:
            raise AssertionError(spec)
        dist.barrier()


def main() -> None:
    dist.init_process_group("gloo")
    for topology, spec in CASES:
        as_in_one_process(topology, spec)
    overlapped()
    resets()
    refused()
    not_finite()
    leave()


if __name__ == "__main__":
    main()
