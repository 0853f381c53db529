"""A run with one node per process, started by torchrun or by `basegraph launch`."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from basegraph.data.dataset import Dataset
from basegraph.engines.device import pick_device
from basegraph.engines.distributed.engine import PARENT_ENDED, DistributedEngine
from basegraph.engines.distributed.membership.fixed import FixedMembership
from basegraph.engines.distributed.membership.group import join
from basegraph.engines.distributed.membership.handshake import require_alike, together
from basegraph.engines.distributed.membership.live import LiveMembership
from basegraph.engines.distributed.membership.progress import seconds
from basegraph.engines.distributed.membership.torchrun import job
from basegraph.engines.distributed.shutdown.deadline import logged_signals_with_deadline
from basegraph.errors import BasegraphError, Interrupted, InvalidArgument, PeerLost
from basegraph.launched import expected, membership_is_live
from basegraph.topologies.catalog import topology
from basegraph.training.config import RunConfig
from basegraph.training.datasets import load_dataset
from basegraph.training.elastic_run import ElasticRun
from basegraph.training.folder import RunFolder, open_run
from basegraph.training.live import LiveRun
from basegraph.training.loop import Loop
from basegraph.training.metrics import Metrics
from basegraph.training.modules import build_model, require_vocabulary
from basegraph.training.problem import Problem
from basegraph.training.run import Diverged
from basegraph.training.threads import choose_threads, using_threads
from basegraph.training.watcher import Watcher

FEW = 8
"""Numbers of nodes for which a topology must exist where nodes join and leave, at least."""


class NotLaunched(BasegraphError):
    """A process was started by itself, not as one of several nodes."""


def world_size() -> int:
    """How many processes torchrun has started; refused where it has not."""
    if "WORLD_SIZE" not in os.environ or "RANK" not in os.environ:
        raise NotLaunched(
            "distributed training needs one process per node: RANK and WORLD_SIZE are not set"
        )
    return int(os.environ["WORLD_SIZE"])


def train_distributed(
    config: RunConfig,
    out: Path,
    *,
    resume: bool = False,
    watcher: Watcher | None = None,
    timeout: float = 300.0,
) -> list[Metrics]:
    """Train one node of a run in this process, or continue a run.

    torchrun starts all nodes, or `basegraph launch`, under which they join and leave.

    Args:
        config: Everything that determines the run.
        out: The folder of the run, which node 0 writes.
        resume: Continue the run in the folder.
        watcher: What node 0 calls at the start, after a step and after an evaluation.
        timeout: Seconds after which a node that does not answer counts as lost.

    Returns:
        The rows of metrics.jsonl.

    Raises:
        NotLaunched: If this process was started by itself, not as one of several nodes.
        PeerLost: If a node was lost; this one has saved its model.

    """
    if membership_is_live():
        return _train_live(config, out, resume, watcher or Watcher(), timeout)
    n = world_size()
    config = replace(config, nodes=n)
    device = _device(config)
    seconds(timeout, "timeout")
    backend = "nccl" if device.type == "cuda" else "gloo"
    join(backend, timeout)
    membership = FixedMembership(timeout=timeout, device=device)
    node = membership.node
    stack = ExitStack()  # node 0's lock on the folder

    def prepare() -> tuple[Dataset, Problem, RunFolder]:
        if node == 0:
            folder = stack.enter_context(open_run(out, resume=resume))
        else:
            folder = RunFolder(out, resume=False, writes=False)
        dataset = load_dataset(config)
        module = build_model(config, dataset)
        require_vocabulary(module, dataset, config.model)
        return dataset, Problem(config, dataset, module), folder

    try:
        require_alike(config.same_on_all_nodes(), membership)
        dataset, problem, folder = together(prepare, membership)
        require_alike({"data or model": problem.fingerprint}, membership)
        engine = DistributedEngine(dataset, problem, membership)
        threads = choose_threads(config, problem.model, dataset, device, 1)
        calls = (watcher if node == 0 else None) or Watcher()
        run = ElasticRun(problem, engine, folder, calls, threads.evaluations, job())
        run.begin_or_restart(dataset)
        with using_threads(threads.steps), logged_signals_with_deadline(membership) as log:
            try:
                (result,) = Loop(engine, [run]).run(log.received)
            except PeerLost as error:
                raise run.rescued(error) from None
            except Interrupted as error:
                alone = error.signal == PARENT_ENDED
                if alone:
                    error.args = (f"torchrun has ended: {error}",)
                # It need not wait until torchrun tells it to end.
                error.reported_elsewhere = node > 0 and (alone or bool(log.received))
                raise
        if isinstance(result, Diverged):
            raise result
        return result
    except BasegraphError as error:
        if not isinstance(error, PeerLost):
            error.reported_by = 0
        raise
    finally:
        stack.close()
        dist.destroy_process_group()


def _train_live(
    config: RunConfig, out: Path, resume: bool, watcher: Watcher, timeout: float
) -> list[Metrics]:
    if config.device.startswith("cuda"):
        raise InvalidArgument(
            "device", config.device, "a run whose nodes join and leave is trained on the CPU"
        )
    seconds(timeout, "timeout")
    _require_any_number(config, max(FEW, 2 * expected()))
    dataset = load_dataset(config)
    module = build_model(config, dataset)
    require_vocabulary(module, dataset, config.model)
    problem = Problem(replace(config, nodes=max(1, expected())), dataset, module)
    membership = LiveMembership(timeout=timeout)
    threads = choose_threads(config, problem.model, dataset, membership.device, 1)
    try:
        with using_threads(threads.steps), logged_signals_with_deadline(membership) as log:
            return LiveRun(
                config,
                out,
                resume=resume,
                watcher=watcher,
                data=(dataset, module),
                membership=membership,
                signals=log,
                evaluation_threads=threads.evaluations,
            ).train()
    except BasegraphError as error:
        error.reported_elsewhere = membership.node > 0 and not isinstance(error, PeerLost)
        raise
    finally:
        membership.close()


def _require_any_number(config: RunConfig, most: int) -> None:
    """Refuse a topology that some numbers of nodes do not have."""
    for n in range(1, most + 1):
        try:
            topology(config.topology, n)
        except InvalidArgument as error:
            raise InvalidArgument(
                "topology",
                config.topology,
                f"must exist for every number of nodes, since nodes join and leave: {error}",
            ) from None


def _device(config: RunConfig) -> torch.device:
    """A GPU of its own for every process of a machine, if GPUs are asked for or available."""
    name = config.device
    if name == "cuda" or (name == "auto" and torch.cuda.is_available()):
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    device = pick_device(name)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device
