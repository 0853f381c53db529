"""The example scripts run, made smaller."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file

from support.forks import nodes_of, run_python

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_sharded_models_with_gossip(tmp_path):
    done = nodes_of(4, EXAMPLES / "fsdp_gossip.py", "--steps", 50, "--out", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "step 50: accuracy 0." in done.stdout
    assert load_file(tmp_path / "model.safetensors")["0.weight"].shape == (128, 64)


def test_training_on_digits_draws_its_curves(tmp_path):
    done = run_python(EXAMPLES / "train_on_digits.py", tmp_path, "--seeds", 1, "--epochs", 1)
    names = ["all-reduce", "base:k=1", "one-peer-exponential", "ring"]
    assert [line.split()[0] for line in done.stdout.splitlines()[2:6]] == names
    assert (tmp_path / "learning.png").read_bytes().startswith(b"\x89PNG")
