"""Vectors on a GPU over gloo, which takes messages from the host's memory."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import basegraph as bg

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
N, STEPS = 3, 7


def train(rank: int, store: str, device: str, options: dict, results: mp.SimpleQueue) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=N)
    torch.manual_seed(0)
    net = torch.nn.Linear(50, 4).to(device)
    optimizer = bg.DecentralizedOptimizer(net.parameters(), "dsgdm", lr=0.1, **options)
    torch.manual_seed(rank)
    pull = torch.randn(4, 50).to(device)
    for _ in range(STEPS):
        optimizer.zero_grad()
        (net.weight - pull).square().sum().backward()
        optimizer.step()
    own = net.weight.detach().cpu().tolist()
    optimizer.consensus()
    results.put((rank, own, net.weight.detach().cpu().tolist()))
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.parametrize(
    "options", [{}, {"wire": torch.bfloat16}, {"order": "combine-then-adapt"}], ids=str
)
def test_a_gpu_gives_what_the_cpu_gives(tmp_path, options):
    outcomes = []
    for device in ("cpu", "cuda"):
        results = mp.get_context("spawn").SimpleQueue()
        context = mp.spawn(
            train, (str(tmp_path / device), device, options, results), nprocs=N, join=False
        )
        outcomes.append([x for _, *x in sorted(results.get() for _ in range(N))])
        context.join()
    tolerance = 2e-2 if "wire" in options else 1e-5
    assert torch.allclose(*map(torch.tensor, outcomes), rtol=tolerance, atol=tolerance)
