"""Sweeps on a Ray cluster: every worker makes a share of the runs, in packs as on one machine.

The sweep's folder must be on a disk that all machines see.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from basegraph.errors import BasegraphError
from basegraph.experiments.sweep import Planned, Progress, SweepFolder, run_sweep
from basegraph.extras import optional_imports
from basegraph.storage.inputs import read_text


def run_on_ray(runs: list[Planned], folder: SweepFolder, *, most: int, progress: Progress) -> None:
    """Hand what is left of the runs to the cluster at RAY_ADDRESS, or to one on this machine."""
    with optional_imports():
        import ray
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)
    left = folder.left(runs)
    resources = ray.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    workers = max(1, min(len(left), gpus or int(resources.get("CPU", 1))))
    shares = [left[worker::workers] for worker in range(workers)]
    remote = ray.remote(num_cpus=1, num_gpus=1 if gpus else 0)(_share)
    text = read_text(folder.definition)
    under_way = {
        remote.remote(share, str(folder.path.resolve()), text, most): share for share in shares
    }
    try:
        while under_way:
            (done,), _ = ray.wait(list(under_way), num_returns=1)
            outcomes, refusal = ray.get(done)
            for name, row, failure in outcomes:
                if failure is not None:
                    progress.failed(name, failure)
                else:
                    progress.finished(name, row)
            if refusal is not None:
                raise BasegraphError(refusal)
            del under_way[done]
    finally:
        ray.shutdown()


Outcome = tuple[str, dict[str, Any] | None, str | None]
"""A run's name, and its last metrics or what went wrong."""


def _share(
    runs: list[Planned], path: str, text: str, most: int
) -> tuple[list[Outcome], str | None]:
    """A worker's part: what became of the runs, and why they were refused if they were."""
    found: list[Outcome] = []
    told = Progress(
        finished=lambda name, row: found.append((name, row, None)),
        failed=lambda name, reason: found.append((name, None, reason)),
    )
    try:
        run_sweep(runs, SweepFolder(Path(path), text, resume=True), most=most, progress=told)
    except BasegraphError as error:
        return found, str(error)
    return found, None
