"""Runs side by side: each gives what it gives by itself, whatever happens to the others."""

from __future__ import annotations

import pytest

import basegraph as bg
from basegraph.training._train import train, train_together
from basegraph.training.config import RunConfig
from basegraph.training.run import Diverged

FIXED = {"nodes": 5, "epochs": 4, "batch": 16, "evaluate_every": 1}


def close(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for name in a.keys() - {"seconds"}:
            assert a[name] == pytest.approx(b[name], rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize("algorithm", ["dsgdm", "gradient-tracking", "sgp", "allreduce-sgd"])
def test_runs_side_by_side_are_what_each_is_alone(algorithm, tmp_path):
    configs = [
        RunConfig(**FIXED, algorithm=algorithm, **own)
        for own in (
            {"topology": "base:k=1", "lr": 0.1, "seed": 3},
            {"topology": "ring", "lr": 0.01, "alpha": 10.0},
            {"topology": "exponential", "lr": 0.05, "alpha": 0.5, "seed": 1},
        )
    ]
    together = train_together({tmp_path / f"together{i}": c for i, c in enumerate(configs)})
    for i, config in enumerate(configs):
        alone = train(config, tmp_path / f"alone{i}")
        close(together[i], alone)
        names = [
            sorted(p.name for p in (tmp_path / f"{x}{i}").iterdir()) for x in ("alone", "together")
        ]
        assert names[0] == names[1]


def test_a_run_that_diverges_does_not_stop_the_others(tmp_path):
    configs = [RunConfig(**FIXED, lr=lr) for lr in (0.1, 1e6, 0.05)]
    runs = {tmp_path / str(i): config for i, config in enumerate(configs)}
    first, second, third = train_together(runs)
    assert isinstance(second, Diverged)
    close(first, train(configs[0], tmp_path / "alone0"))
    close(third, train(configs[2], tmp_path / "alone2"))


def test_only_runs_that_are_alike_share_an_engine(tmp_path):
    runs = {tmp_path / str(m): RunConfig(**FIXED, momentum=m) for m in (0.9, 0.8)}
    with pytest.raises(bg.InvalidArgument, match="may differ only in seed, lr, alpha and topology"):
        train_together(runs)


def test_only_runs_at_the_same_step_share_an_engine(tmp_path):
    finished, fresh = (RunConfig(**FIXED, seed=seed) for seed in (0, 1))
    train(finished, tmp_path / "0")
    for paths in ("01", "10"):  # whichever is the first
        runs = {tmp_path / path: finished if path == "0" else fresh for path in paths}
        with pytest.raises(bg.InvalidArgument, match="must be at the same step"):
            train_together(runs, resume=True)
    assert not (tmp_path / "1").exists()
