"""`basegraph train`, `compare` and `data check`, end to end and with mistakes."""

from __future__ import annotations

import json

import pytest

import basegraph as bg
from basegraph.cli.compare import find_runs
from basegraph.storage.files import TEMPORARY
from basegraph.training._train import train
from basegraph.training.config import RunConfig
from support.cli import ok, run_here

SHORT = {"nodes": 5, "epochs": 4, "batch": 16, "evaluate_every": 1}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--nodes", "2000"], "nodes=2000: must be at most the 1295 training samples"),
        (["--alpha", "-1"], "alpha=-1.0: must be a number above 0"),
        (["--model", "lenett"], "model='lenett': did you mean 'lenet'"),
        (["--dataset", "minst"], "dataset='minst': did you mean 'mnist'"),
        (["--dataset", "mnist", "--data-dir", "nowhere"], "mnist: put train-images"),
        (["--algorithm", "d2"], "d2 is unstable on base:k=1 with n=25"),
        (["--damping", "auto"], "damping='auto': dsgdm has no such option"),
        (["--algorithm", "dsgd", "--nesterov", "true"], "nesterov=True: dsgd has no such option"),
        (["--topology", "one-peer-hypercube"], "--nodes=25: one-peer-hypercube needs n"),
        (["--algorithm", "allreduce-sgd", "--local-steps", "2"], "averages gradients at every"),
        (["--config", "none.toml"], "--config='none.toml': No such file"),
        (["--resume"], "holds no run to resume"),
        (["--epochs", "many"], "epochs='many': must be an integer"),
        (["--device", "cuda:9"], "device='cuda:9'"),
        (["--model", "lenet"], "model='lenet': does not take images (1, 8, 8)"),
        (["--seed", str(2**64)], "seed=18446744073709551616: must be an integer"),
        (["--alpha", "1e-320"], "alpha=1e-320: must be a number above 0"),
        (["--alpha", "10", "--split", "iid"], "--alpha=10.0: needs split=dirichlet"),
        (["--lr-min", "0.01", "--schedule", "constant"], "--lr-min=0.01: needs schedule=cosine"),
        (["--timeout", "300"], "--timeout='300': requires --engine distributed"),
    ],
)
def test_mistakes_are_refused_before_training(arguments, complaint, tmp_path):
    done = run_here("train", *arguments, "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nodse = 5", "field of c.toml='nodse': did you mean 'nodes'"),
        ('nodes = "five"', "nodes='five': must be an integer"),
        ("nodes = ", "is not TOML"),
    ],
)
def test_bad_config_files(text, complaint, tmp_path):
    (tmp_path / "c.toml").write_text(text)
    done = run_here("train", "--config", "c.toml", "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1


def test_commands_end_to_end(tmp_path):
    for seed in (0, 1):
        arguments = ["--nodes", 4, "--epochs", 6, "--seed", seed, "--out", tmp_path / f"s{seed}"]
        text = ok("train", *arguments) if seed == 0 else run_here("train", *arguments).stdout
        assert "heterogeneity 0." in text
        assert "epoch 6: loss" in text
        assert "done: test accuracy" in text
    folder = tmp_path / "s0"
    assert {p.name for p in folder.iterdir()} == {
        "config.toml",
        "metrics.jsonl",
        "checkpoint.safetensors",
        "provenance.json",
    }
    plot = tmp_path / "curves.png"
    text = run_here("compare", folder, tmp_path / "s1", "--plot", plot).stdout
    assert "s0" in text
    assert plot.read_bytes().startswith(b"\x89PNG")
    being_written = folder / f"{TEMPORARY}checkpoint.abcd1234.safetensors"
    being_written.write_bytes(b"by a run that goes on")
    assert len(json.loads(run_here("compare", folder, "--json").stdout)) == 1
    assert being_written.exists()
    being_written.unlink()
    again = run_here("train", "--out", folder)
    assert again.returncode == 2
    assert "holds a run already: resume it" in again.stderr
    other = run_here("train", "--resume", "--out", folder, "--lr", "0.5")
    assert other.returncode == 2
    assert "lr=0.5: differs from the run that is resumed, which has 0.1" in other.stderr
    path = folder / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    cut = run_here("train", "--resume", "--out", folder)
    assert cut.returncode == 2
    assert "is cut short or no checkpoint" in cut.stderr
    (tmp_path / "empty").mkdir()
    wrong = run_here("compare", tmp_path / "empty")
    assert wrong.returncode == 2
    assert "is not a folder with runs" in wrong.stderr


def test_compare_finds_runs_below_folders(tmp_path, capsys):
    config = RunConfig(**{**SHORT, "epochs": 1})
    for name in ("alone", "sweep/b", "sweep/a", "sweep/late"):
        train(config, tmp_path / name)
    (tmp_path / "sweep" / "late" / "metrics.jsonl").write_text("")
    (tmp_path / "sweep" / "failures").mkdir()
    (tmp_path / "sweep" / "back").symlink_to(tmp_path)
    alone, sweep = tmp_path / "alone", tmp_path / "sweep"
    names = ["alone", "sweep/a", "sweep/b"]
    assert [one["run"] for one in find_runs([alone, sweep, sweep / "a"])] == names
    late = str(sweep / "late")
    assert capsys.readouterr().err == f"left out, no evaluation yet: {late}\n"
    with pytest.raises(bg.InvalidArgument, match=r"late'.*: has no evaluation yet"):
        find_runs([alone, sweep / "late"])
    with pytest.raises(bg.InvalidArgument, match="is not a folder with runs"):
        find_runs([alone, sweep / "failures"])


def test_data_check(tmp_path):
    text = run_here("data", "check", "--data-dir", tmp_path).stdout
    assert "digits" in text
    assert f"into {tmp_path / 'mnist'}" in text
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "cifar-10-python.tar.gz").write_bytes(b"x")
    done = run_here("data", "check", "--data-dir", tmp_path)
    assert done.returncode == 1
    assert "is not the published c58f30108f718f92721af3b95e74349a" in done.stdout


def test_divergence_is_no_mistake_of_the_user(tmp_path):
    flags = ["--nodes", 3, "--epochs", 2, "--lr", "1e9", "--out", tmp_path / "run"]
    done = run_here("train", *flags)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "last good checkpoint: none yet" in done.stderr
