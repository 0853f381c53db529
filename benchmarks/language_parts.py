"""The parts of a language model's step by themselves, and the kernels of a whole one.

For `benchmarks/language.py --parts` and `--profile`; the shapes are those of `gpt-20m`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from basegraph.models import loss_kernels
from basegraph.models.linear_cross_entropy import mean_losses

WIDTH, FFN, HEADS, VOCABULARY, CONTEXT = 320, 896, 5, 32_000, 1024


def seconds(work: Callable[[], object], repeats: int = 10) -> float:
    """The median time of some work on a GPU, by events."""
    for _ in range(3):
        work()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return median(times)


def product_rate(device: str) -> float:
    """Operations per second of a large product: bf16 on a GPU, float32 on a CPU."""
    cuda = device.startswith("cuda")
    size = 8192 if cuda else 512
    kind = torch.bfloat16 if cuda else torch.float32
    a, b = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
    return 2.0 * size**3 / (seconds(lambda: a @ b) if cuda else _on_cpu(lambda: a @ b))


def copy_rate(device: str) -> float:
    """Bytes per second of a large copy, read and written."""
    cuda = device.startswith("cuda")
    a = torch.randn(2**30 if cuda else 2**24, device=device)
    b = torch.empty_like(a)
    return 2.0 * a.nbytes / (seconds(lambda: b.copy_(a)) if cuda else _on_cpu(lambda: b.copy_(a)))


def _on_cpu(work: Callable[[], object]) -> float:
    times = []
    for _ in range(4):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return median(times[1:])


def _random(*shape: int) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def measure_parts() -> None:
    """Print the times of the parts of a step of 131,072 tokens at 8 nodes."""
    print(f"\n{'part':>44} {'ms':>8} {'TFLOP/s':>8} {'TB/s':>6}")
    rows = 16 * CONTEXT
    _products(8, rows)
    _vocabulary(rows)
    _attention(8 * 16)


def _line(name: str, spent: float, operations: float, moved: float) -> None:
    print(
        f"{name:>44} {spent * 1e3:>8.3f} {operations / spent / 1e12:>8.0f} "
        f"{moved / spent / 1e12:>6.2f}",
        flush=True,
    )


def _products(nodes: int, rows: int) -> None:
    """Forward, and the gradients of input and weight, of the four products of a block."""
    for name, inner, outer in (
        ("qkv", WIDTH, 3 * WIDTH),
        ("out", WIDTH, WIDTH),
        ("gate up", WIDTH, 2 * FFN),
        ("down", FFN, WIDTH),
    ):
        x, w, g = (
            _random(nodes, rows, inner),
            _random(nodes, outer, inner),
            _random(nodes, rows, outer),
        )
        count = 2.0 * nodes * rows * inner * outer
        for what, work in (
            ("forward", lambda x=x, w=w: torch.bmm(x, w.transpose(1, 2))),
            ("d input", lambda g=g, w=w: torch.bmm(g, w)),
            ("d weight", lambda g=g, x=x: torch.bmm(g.transpose(1, 2), x)),
        ):
            _line(f"{name}, {what}", seconds(work), count, x.nbytes + w.nbytes + g.nbytes)


def _vocabulary(rows: int) -> None:
    """One node's products with the vocabulary, the softmax, and the whole loss of 8 nodes."""
    x, w, g = _random(rows, WIDTH), _random(VOCABULARY, WIDTH), _random(rows, VOCABULARY)
    count = 2.0 * rows * WIDTH * VOCABULARY
    for what, work in (
        ("logits", lambda: torch.mm(x, w.T, out=g)),
        ("d input", lambda: torch.mm(g, w)),
        ("d weight", lambda: torch.mm(g.T, x)),
    ):
        _line(f"one node's vocabulary, {what}", seconds(work), count, g.nbytes)
    targets = torch.randint(0, VOCABULARY, (rows,), device="cuda")
    losses = torch.empty(rows, device="cuda")
    for block, warps in (
        (32768, 8), (32768, 16), (32768, 32), (2048, 4), (4096, 4), (4096, 8), (8192, 8),
        (8192, 16), (16384, 16),
    ):  # fmt: skip
        g.normal_()
        spent = seconds(
            lambda b=block, k=warps: loss_kernels.cross_entropy_(
                g, targets, losses, 1.0, block=b, warps=k
            )
        )
        _line(f"softmax and gradient, block {block}, {warps} warps", spent, 0, 2 * g.nbytes)
    x, w = _random(8, rows, WIDTH), _random(8, VOCABULARY, WIDTH)
    targets = torch.randint(0, VOCABULARY, (8, rows), device="cuda")
    for power in (25, 26, 27, 28, 29, 30, 31):
        spent = seconds(lambda p=power: mean_losses(x, w, targets, 2**p), 5)
        _line(f"whole loss, 2^{power} logits at a time", spent, 3 * 8 * count, 0)


def _attention(sequences: int) -> None:
    size = WIDTH // HEADS
    count = 2.0 * sequences * HEADS * CONTEXT * (CONTEXT + 1) * size
    for layout in ("heads first", "tokens first"):
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            if layout == "heads first":
                q, k, v = (_random(sequences, HEADS, CONTEXT, size) for _ in range(3))
            else:
                packed = _random(sequences, CONTEXT, 3, HEADS, size)
                q, k, v = (part.transpose(1, 2) for part in packed.unbind(2))
            q, k, v = (part.detach().requires_grad_() for part in (q, k, v))
            try:
                with sdpa_kernel(backend):
                    y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                    g = torch.randn_like(y)
                    forward = seconds(
                        lambda q=q, k=k, v=v: functional.scaled_dot_product_attention(
                            q, k, v, is_causal=True
                        )
                    )
                    backward = seconds(
                        lambda y=y, g=g, q=q, k=k, v=v: torch.autograd.grad(
                            y, (q, k, v), g, retain_graph=True
                        )
                    )
            except RuntimeError as error:
                print(f"{backend.name}: {str(error).splitlines()[0]}")
                continue
            name = f"{backend.name.lower()}, {layout}"
            _line(f"{name}, forward", forward, count, 4 * q.nbytes)
            _line(f"{name}, backward", backward, 2.5 * count, 8 * q.nbytes)


def print_profile(step: Callable[[], object], top: int) -> None:
    """Print where the time of one step goes: the kernels that take the longest, and all by kind."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities) as profile:
        step()
        torch.cuda.synchronize()
    spent: dict[str, list[float]] = defaultdict(list)
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            spent[event.name].append(event.device_time / 1e3)
    total = sum(map(sum, spent.values()))
    print(f"\nkernels of one step, {total:.2f} ms in {sum(map(len, spent.values()))} calls")
    print(f"{'ms':>8} {'share':>6} {'calls':>6}  kernel")
    for name, times in sorted(spent.items(), key=lambda item: -sum(item[1]))[:top]:
        print(f"{sum(times):>8.3f} {sum(times) / total:>6.1%} {len(times):>6}  {name[:150]}")
    kinds: dict[str, float] = defaultdict(float)
    for name, times in spent.items():
        kinds[_kind(name)] += sum(times)
    for kind, time_ms in sorted(kinds.items(), key=lambda item: -item[1]):
        print(f"{time_ms:>8.3f} {time_ms / total:>6.1%}         {kind}", flush=True)


def _kind(name: str) -> str:
    """What a kernel does, by its name."""
    for kind, parts in {
        "softmax of the loss": ("_whole_kernel", "_pieces_kernel"),
        "attention": ("flash", "fmha", "cudnn", "attention"),
        "products": ("gemm", "cutlass", "nvjet", "cublas", "triton_tem", "splitK"),
        "compiled elementwise and reductions": ("triton_",),
        "copies": ("Memcpy", "Memset", "copy"),
    }.items():
        if any(part in name for part in parts):
            return kind
    return "other"
