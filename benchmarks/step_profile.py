"""The kernels of one step on a GPU, for `--profile` of benchmarks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import torch


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
        print(f"{sum(times):>8.3f} {sum(times) / total:>6.1%} {len(times):>6}  {name[:110]}")
    kinds: dict[str, float] = defaultdict(float)
    for name, times in spent.items():
        kinds[_kind(name)] += sum(times)
    for kind, time_ms in sorted(kinds.items(), key=lambda item: -item[1]):
        print(f"{time_ms:>8.3f} {time_ms / total:>6.1%}         {kind}", flush=True)


def _kind(name: str) -> str:
    """What a kernel does, by its name."""
    for kind, parts in {
        "softmax of the loss": ("_whole_kernel", "_pieces_kernel"),
        "logits with their exponentials": ("_exponentials_", "_levels_kernel", "_totals_kernel"),
        "attention": ("flash", "fmha", "cudnn", "attention"),
        "products": ("gemm", "cutlass", "nvjet", "cublas", "triton_tem", "splitK"),
        "normalization, ReLU and pooling": ("_forward_kernel", "_backward_kernel", "_norm_"),
        "columns and small convolutions": ("_columns_", "_correlate_", "_filter_gradient_"),
        "steps between products": ("_normalize_", "_rotate_", "_swiglu_", "_add_rows_"),
        "weights rounded, their gradients unfolded": ("_round_", "_unfold_"),
        "compiled elementwise and reductions": ("triton_",),
        "copies": ("Memcpy", "Memset", "copy"),
    }.items():
        if any(part in name for part in parts):
            return kind
    return "other"
