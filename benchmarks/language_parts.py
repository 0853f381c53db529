"""The parts of a language model's step by themselves, for `benchmarks/language.py --parts`.

The shapes are those of `gpt-20m`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

from basegraph.models import loss_kernels, vocabulary_kernels
from basegraph.models import transformer_kernels as steps
from basegraph.models.attention import attend, attend_backward

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
    print(f"\n{'part':>48} {'ms':>8} {'TFLOP/s':>8} {'TB/s':>6}")
    rows = 16 * CONTEXT
    _products(8, rows)
    _vocabulary(rows)
    _steps_between(8, rows)
    _attention(8 * 16)


def _line(name: str, spent: float, operations: float, moved: float) -> None:
    print(
        f"{name:>48} {spent * 1e3:>8.3f} {operations / spent / 1e12:>8.0f} "
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
    """One node's products with the vocabulary, and the softmax between them, or exponentials."""
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
    softmax = seconds(lambda: loss_kernels.cross_entropy_(g, targets, losses, 1.0))
    _line("one node's vocabulary, softmax", softmax, 0, 2 * g.nbytes)
    if vocabulary_kernels.fits(x[None]):
        arguments = [part[None] for part in (x, w, targets, g, losses)]
        both = seconds(lambda: vocabulary_kernels.exponentials(*arguments))
        _line("one node's vocabulary, logits and exponentials", both, count, g.nbytes)


def _steps_between(nodes: int, rows: int) -> None:
    """What is done between products, once each; bytes are those that must be read and written."""
    x, g, gate_up = (_random(nodes, rows, size) for size in (WIDTH, WIDTH, 2 * FFN))
    qkv = _random(nodes * rows // CONTEXT, CONTEXT, 3, HEADS, WIDTH // HEADS)
    d_q, d_k, d_v = (part.contiguous().transpose(1, 2) for part in qkv.unbind(2))
    turn = [torch.rand(CONTEXT, WIDTH // HEADS // 2, device="cuda") for _ in range(2)]
    normal, scale, _ = steps.normalize(x, 1e-5)
    y = steps.swiglu(gate_up)
    total = torch.zeros(nodes, VOCABULARY, WIDTH, device="cuda")
    tokens = torch.randint(0, VOCABULARY, (nodes, rows), device="cuda")
    matrix = torch.randn(nodes, 2 * FFN, WIDTH, device="cuda")
    weight = torch.randn(nodes, WIDTH, device="cuda")
    for name, work, moved in (
        ("norm, forward", lambda: steps.normalize(x, 1e-5), 2 * x.nbytes),
        (
            "norm, backward",
            lambda: steps.normalize_backward(g, normal, scale, x),
            4 * x.nbytes,
        ),
        ("rotation, forward", lambda: steps.rotate_(qkv, *turn), 4 * x.nbytes),
        (
            "rotation, backward",
            lambda: steps.rotate_back(d_q, d_k, d_v, *turn),
            6 * x.nbytes,
        ),
        ("SwiGLU, forward", lambda: steps.swiglu(gate_up), 3 * y.nbytes),
        ("SwiGLU, backward", lambda: steps.swiglu_backward_(y, gate_up), 5 * y.nbytes),
        ("embedding, backward", lambda: steps.add_rows_(total, tokens, g), 3 * x.nbytes),
        (
            "gate and up, folded and rounded",
            lambda: steps.rounded(matrix, torch.bfloat16, weight),
            1.5 * matrix.nbytes,
        ),
        (
            "gate and up, unfolded",
            lambda: steps.unfold_(matrix, matrix, weight, weight),
            3 * matrix.nbytes,
        ),
    ):
        _line(name, seconds(work), 0, moved)


def _attention(sequences: int) -> None:
    qkv = _random(sequences, CONTEXT, 3, HEADS, WIDTH // HEADS)
    attended = attend(qkv)
    g = torch.randn_like(attended.y)
    count = 2.0 * sequences * CONTEXT * (CONTEXT + 1) * WIDTH
    _line("attention, forward", seconds(lambda: attend(qkv)), count, 4 * g.nbytes)
    spent = seconds(lambda: attend_backward(attended, g))
    _line("attention, backward", spent, 2.5 * count, 8 * g.nbytes)
