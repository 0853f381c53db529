"""Gossip between processes on one machine: a step's communication, every ratio from one run.

All forms move the same model, random tensors in the shapes of LeNet or VGG-11, whose gradients cost
almost nothing. `raw` is one batch of isend/irecv of the same bytes with the round's partner and
nothing else; `all-reduce` is the flat all-reduce of the gradients; `DDP` and `decent-dp` (if that
package is installed, with its one-peer exponential graph) are whole steps of those, and so are
`basegraph` (DecentralizedOptimizer) and `Gossip`: backward pass, momentum update, exchange. The
exchange of decent-dp runs behind the next step, and so does that of the forms named `behind`
(combine-then-adapt); the last one measured is waited for. `mix` is basegraph's exchange alone.
Times are medians over interleaved rounds of the slowest rank's time; `cpu ms` is processor time per
rank.

Beside what was measured stands what the model of `basegraph bench model` says. Its latency is that
of one number, measured: of its exchange, and, as a collective's messages do not pass through
Python, of its all-reduce divided by the 2(n-1) messages in a row. Its bandwidth is the shaped one,
or else what `raw` shows.

    python benchmarks/distributed.py --ranks 4,8 --models lenet,vgg11
    python benchmarks/distributed.py --netns --rate 200mbit --delay 5ms

With --netns every rank is in a network namespace of its own, on one bridge, behind a link that tc
has shaped (netns.py); where the machine does not allow that it says why and leaves with 2.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from statistics import median

import netns
import torch
import torch.distributed as dist
from distributed_forms import Shapes, forms
from provenance import header

import basegraph as bg
from basegraph.engines.signals import logged_signals
from basegraph.experiments.scaling import Network, cost
from basegraph.units import bandwidth, seconds
from basegraph.wires import wire


def modeled(
    times: dict[str, float], size: int, rate: float | None, wires: list[str]
) -> dict[str, float]:
    """Seconds that the model gives for what was measured."""
    n, latency = dist.get_world_size(), times["one number"]
    if rate is None:
        if times["raw"] <= latency:  # a small model on a busy machine: latency is all there is
            return {}
        rate = size / (times["raw"] - latency)
    network = Network(bandwidth=rate, latency=latency)
    inner = Network(bandwidth=rate, latency=times["all-reduce one number"] / max(2 * (n - 1), 1))
    shapes = {
        "raw": ("base:k=1", size),
        "mix base:k=1": ("base:k=1", size),
        **{f"mix base:k=1, {w}": ("base:k=1", wire(w).message_bytes(size // 4)) for w in wires},
        "mix ring": ("ring", size),
        "mix exponential": ("exponential", size),
    }
    gossip = {
        label: cost(spec, n, sent, network).seconds_per_step
        for label, (spec, sent) in shapes.items()
    }
    return {**gossip, "all-reduce": cost("all-reduce", n, size, inner).seconds_per_step}


def measure(name: str, wires: list[str], rounds: int, count: int, rate: float | None) -> None:
    works, rest = forms(name, wires)
    taken: dict[str, list[float]] = {label: [] for label in works}
    computed: dict[str, list[float]] = {label: [] for label in works}
    for turn in range(rounds + 1):
        for label, work in works.items():
            dist.barrier()
            began, began_cpu = time.perf_counter(), time.process_time()
            for _ in range(count):
                work()
            rest.get(label, lambda: None)()
            spent = torch.tensor((time.perf_counter() - began) / count)
            cpu = torch.tensor((time.process_time() - began_cpu) / count)
            dist.all_reduce(spent, op=dist.ReduceOp.MAX)
            dist.all_reduce(cpu)
            if turn:
                taken[label].append(float(spent))
                computed[label].append(float(cpu) / dist.get_world_size())
    if dist.get_rank() > 0:
        return
    times = {label: median(spent) for label, spent in taken.items()}
    size = 4 * sum(p.numel() for p in Shapes(name).parameters())
    model = modeled(times, size, rate, wires)
    for label, spent in times.items():
        known = model.get(label)
        print(
            f"{dist.get_world_size():>5} {name:>7} {label:>21} {spent * 1e3:>9.2f} "
            f"{median(computed[label]) * 1e3:>9.2f} {spent / times['raw']:>7.2f} "
            f"{times['all-reduce'] / spent:>11.2f}"
            + ("" if known is None else f" {known * 1e3:>9.2f} {spent / known:>7.2f}"),
            flush=True,
        )


def as_rank(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name in options.models.split(","):
        count = {"lenet": 20, "vgg11": 4}[name]
        rate = bandwidth("--rate", options.rate) if options.netns else None
        count = count // 2 if options.netns else count
        measure(name, options.wires.split(","), options.rounds, count, rate)
    dist.destroy_process_group()


def ranks_of(count: int, before: list[list[str]], host: str, interface: str) -> None:
    """Start the ranks, each behind its own prefix; whatever happens, none is left behind."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    shared = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": interface,
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
    }
    running: list[subprocess.Popen[bytes]] = []
    with logged_signals() as log:  # not at once: a rank might have started, but not be listed
        try:
            for rank, prefix in enumerate(before):
                if log.received:
                    break
                rank_only = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                command = [*prefix, sys.executable, *sys.argv]
                running.append(subprocess.Popen(command, env={**shared, **rank_only}))
            while not log.received and any(process.poll() is None for process in running):
                time.sleep(0.1)
                failed = [rank for rank, process in enumerate(running) if process.returncode]
                if failed:
                    sys.exit(f"rank {failed[0]} failed")
            if log.received:
                sys.exit(128 + log.received[0])
        finally:
            for process in running:
                process.kill()
            for process in running:
                process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", default="4,8")
    parser.add_argument("--models", default="lenet,vgg11")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--wires", default="bf16,int8,topk:0.01", help="that mix base:k=1 uses")
    parser.add_argument("--netns", action="store_true", help="ranks in network namespaces")
    parser.add_argument("--rate", default="200mbit", help="of a link, each way (with --netns)")
    parser.add_argument("--delay", default="0ms", help="of a link (with --netns)")
    options = parser.parse_args()
    if "RANK" in os.environ:
        as_rank(options)
        return
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT is ignored in a shell's background
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    enclosed = "BENCHMARK_ENCLOSED" in os.environ
    if options.netns and not enclosed:
        bandwidth("--rate", options.rate)
        seconds("--delay", options.delay)
        command = netns.enclosed([sys.executable, *sys.argv])
        os.execvpe(command[0], command, {**os.environ, "BENCHMARK_ENCLOSED": "1"})
    if options.netns:  # refused before anything is printed
        with netns.shaped(1, options.rate, options.delay):
            pass
    print(header())
    where = f"{options.rate}, delay {options.delay}" if options.netns else "loopback"
    print(
        f"\n{where}\n{'ranks':>5} {'model':>7} {'':>21} {'ms':>9} {'cpu ms':>9} {'/raw':>7} "
        f"{'all-reduce/':>11} {'model ms':>9} {'/model':>7}",
        flush=True,
    )
    for ranks in map(int, options.ranks.split(",")):
        if options.netns:
            with netns.shaped(ranks, options.rate, options.delay) as prefixes:
                ranks_of(ranks, prefixes, netns.address(0), netns.INTERFACE)
        else:
            ranks_of(ranks, [[]] * ranks, "127.0.0.1", "lo")


if __name__ == "__main__":
    try:
        main()
    except (netns.NoNamespaces, bg.BasegraphError) as refusal:
        print(refusal, file=sys.stderr)
        sys.exit(2)
