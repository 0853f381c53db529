"""Sweeps on a Ray cluster: every worker makes a share of the runs, in packs as on one machine.

The sweep's folder must be on a disk that all machines see.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from basegraph.errors import BasegraphError
from basegraph.experiments.sweep import SweepFolder, SweepWatcher, run_sweep
from basegraph.extras import optional_imports
from basegraph.storage.inputs import read_text
from basegraph.training.config import RunConfig
from basegraph.training.metrics import Metrics


def run_on_ray(
    runs: Mapping[str, RunConfig], folder: SweepFolder, *, most: int, progress: SweepWatcher
) -> None:
    """Make what is left of the runs on the cluster at RAY_ADDRESS, or on one on this machine.

    Args:
        runs: Configurations by name.
        folder: Where each has a folder of its name; all machines must see it.
        most: Runs side by side on one worker, at most.
        progress: What to call when a run has ended.

    Raises:
        BasegraphError: If Ray is not installed, or a worker refuses its runs.

    """
    with optional_imports():
        import ray
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)
    left = list(folder.left(runs).items())
    resources = ray.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    workers = max(1, min(len(left), gpus or int(resources.get("CPU", 1))))
    shares = [dict(left[worker::workers]) for worker in range(workers)]
    remote = ray.remote(num_cpus=1, num_gpus=1 if gpus else 0)(_share)
    text = read_text(folder.definition)
    under_way = {
        remote.remote(share, str(folder.path.resolve()), text, most): share for share in shares
    }
    try:
        while under_way:
            (done,), _ = ray.wait(list(under_way), num_returns=1)
            ended, refusal = ray.get(done)
            for name, result in ended.items():
                if isinstance(result, str):
                    progress.failed(name, result)
                else:
                    progress.finished(name, result)
            if refusal is not None:
                raise BasegraphError(refusal)
            del under_way[done]
    finally:
        ray.shutdown()


Ended = dict[str, Metrics | str]
"""The last metrics of runs by name, or what went wrong."""


def _share(
    runs: Mapping[str, RunConfig], path: str, text: str, most: int
) -> tuple[Ended, str | None]:
    """A worker's part: how its runs have ended, and why they were refused if they were."""
    ended: Ended = {}
    progress = SweepWatcher(finished=ended.__setitem__, failed=ended.__setitem__)
    try:
        run_sweep(runs, SweepFolder(Path(path), text, resume=True), most=most, progress=progress)
    except BasegraphError as error:
        return ended, str(error)
    return ended, None
