from __future__ import annotations

import os
from pathlib import Path

import pytest

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # a GPU machine may have pytest alone: tests for GPUs need nothing else
    pass
else:
    # A busy machine takes many times as long: no example has a deadline.
    settings.register_profile(
        "no limit in seconds", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("no limit in seconds")

# One thread each: pytest runs as many processes as there are cores, and so do their children.
os.environ.setdefault("OMP_NUM_THREADS", "1")

collect_ignore = ["scripts"]
"""Programs that tests start, with arguments."""

LONGEST = [
    "test_docs.py",
    "engines/distributed/test_faults.py",
    "engines/distributed/test_live.py",
    "test_site.py",
    "engines/distributed/test_distributed.py",
    "benchmarks/test_nemesis.py",
    "training/test_live_run.py",
    "benchmarks/test_live_benchmark.py",
    "cli/test_cli.py",
    "benchmarks/test_netns.py",
    "optim/test_checkpoints.py",
    "engines/distributed/test_train_distributed.py",
    "engines/distributed/test_sharded.py",
    "plots/test_explorer.py",
    "plots/test_explorer_sequences.py",
    "topologies/paper/test_constructions.py",
    "topologies/short/test_short.py",
    "training/test_resume.py",
    "training/test_training.py",
    "experiments/test_experiments.py",
]
"""Files that take longest: with them at the end, one process would work on alone."""

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest."""
    order = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """One process more than there are cores: some tests wait for nodes that do not answer."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (cores or 1) + 1


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real datasets, where this checkout has one beside it."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("no folder ../shared/data beside this checkout: real data not read")
    return folder
