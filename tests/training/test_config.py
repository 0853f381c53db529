"""Configurations: through TOML, and what is refused."""

from __future__ import annotations

import pytest

import basegraph as bg
from basegraph.training.config import SETTINGS, RunConfig
from basegraph.training.config_files import read_toml


def test_config_goes_through_toml(tmp_path):
    config = RunConfig(nodes=7, lr=0.25, nesterov=True, data_dir='a "b" \\ c', topology="ring")
    path = tmp_path / "c.toml"
    path.write_text(config.to_toml())
    assert RunConfig(**read_toml(path)) == config


def test_every_field_has_its_line():
    assert all(setting.help.endswith(".") for setting in SETTINGS.values())


def test_idle_fields_with_their_defaults_are_accepted():
    config = RunConfig(split="iid", alpha=0.1, schedule="constant", lr_min=0, warmup_start=0.01)
    assert (config.alpha, config.lr_min) == (0.1, 0.0)
    assert RunConfig(split="iid", split_order="by-class").split_order == "by-class"


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"topology": "rong"}, "topology='rong': did you mean 'ring'"),
        ({"algorithm": "dsdgm"}, "algorithm='dsdgm': did you mean 'dsgdm'"),
        ({"nodes": 0}, "nodes=0: must be an integer ≥ 1"),
        ({"nodes": 2.0}, r"nodes=2\.0: must be an integer"),
        ({"alpha": 0}, r"alpha=0\.0: must be a number above 0"),
        ({"lr": "fast"}, "lr='fast': must be a number"),
        ({"lr": float("nan")}, "lr=nan: must be a number above 0"),
        ({"momentum": 1.0}, r"momentum=1\.0: must be a number in \[0, 1\)"),
        ({"nesterov": "yes"}, "nesterov='yes': must be true or false"),
        ({"split_order": "sorted"}, "split_order='sorted': must be shuffled or by-class"),
        ({"schedule": "linear"}, "schedule='linear': must be cosine or constant"),
        ({"lr": 0.01, "lr_min": 0.1}, r"lr_min=0\.1: must be at most lr, 0\.01"),
        ({"warmup_start": 1}, r"warmup_start=1\.0: must be at most lr, 0\.1"),
        ({"cosine_epochs": 3, "schedule": "constant"}, "cosine_epochs=3: needs schedule=cosine"),
        ({"lr_min": 0.01, "schedule": "constant"}, r"lr_min=0\.01: needs schedule=cosine"),
        ({"alpha": 10.0, "split": "iid"}, r"alpha=10\.0: needs split=dirichlet"),
        ({"alpha": 10, "split": "domains"}, r"alpha=10\.0: needs split=dirichlet"),
        ({"lr_changes": "never"}, "lr_changes='never': must be step or epoch"),
        ({"normalize": "yes"}, "normalize='yes': must be dataset, half or none"),
        ({"padding": "white"}, "padding='white': must be zero or black"),
        ({"augment": "crop+blur"}, r"augment='crop\+blur'"),
        ({"damping": "2"}, r"damping='2': must be none, auto or in \(0, 1\]"),
        ({"device": "tpu"}, "device='tpu'"),
        ({"local_steps": 0}, "local_steps=0"),
        ({"clip": -1}, r"clip=-1\.0: must be a number 0 or above"),
        ({"clip": float("inf")}, "clip=inf: must be a number 0 or above"),
    ],
)
def test_bad_fields(fields, complaint):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        RunConfig(**fields)
