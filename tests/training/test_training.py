"""Training: equality with a naive implementation, runs that stop and go on, and refusals."""

from __future__ import annotations

import json
import os
import signal
import socket

import numpy as np
import pytest
import torch
from torch import nn

import basegraph as bg
from basegraph.algorithms.catalog import ALGORITHMS
from basegraph.cli.compare import find_runs
from basegraph.data.augment import gather
from basegraph.data.catalog import load
from basegraph.data.dataset import Dataset
from basegraph.engines import checkpoint
from basegraph.engines.stacked import update
from basegraph.engines.stacked.engine import StackedEngine
from basegraph.models.networks import build
from basegraph.plots.learning import labels
from basegraph.storage.files import TEMPORARY, leftovers, replacing
from basegraph.training.config import RunConfig, field_help, read_toml
from basegraph.training.folder import RunFolder
from basegraph.training.loop import Diverged, Watcher
from basegraph.training.problem import Replica
from basegraph.training.train import Job, train, train_together
from support.cli import ok, run_here
from support.held import held

MOMENTUM = {"dsgdm", "qg-dsgdm", "momentum-tracking", "decentlam", "allreduce-sgd"}
SHORT = {"nodes": 5, "epochs": 4, "batch": 16, "evaluate_every": 1}


def engine(**changes):
    config = RunConfig(**{**SHORT, **changes})
    dataset = load("digits")
    module = build("mlp", dataset.shape, 10, config.seed)
    return StackedEngine(dataset, [Replica(config, dataset, module)])


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


class Naive:
    """dsgdm with n separate modules and hand-written loops; shares only the data plan."""

    def __init__(self, reference: StackedEngine):
        self.reference = reference
        config = reference.config
        self.models = [
            build("mlp", (1, 8, 8), 10, config.seed).double() for _ in range(config.nodes)
        ]
        self.momenta = [[torch.zeros_like(p) for p in m.parameters()] for m in self.models]

    def step(self, step):
        config = self.reference.config
        engine = self.reference
        planned = engine._inputs(step)
        samples = gather(engine.images, **planned, mean=engine.mean, std=engine.std)
        labels = engine.labels[planned["sample"]]
        total = config.epochs * self.reference.steps_per_epoch
        lr = config.lr * (1 + np.cos(np.pi * step / total)) / 2
        half = []
        for i, model in enumerate(self.models):
            loss = nn.functional.cross_entropy(model(samples[i].double()), labels[i])
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            moved = []
            for u, g, p in zip(self.momenta[i], gradients, model.parameters(), strict=True):
                u.mul_(config.momentum).add_(g + config.weight_decay * p.detach())
                moved.append(p.detach() - lr * u)
            half.append(moved)
        if (step + 1) % config.local_steps:
            mixed = half
        else:
            matrix = (
                self.reference.replicas[0]
                .topology.round(step // config.local_steps)
                .matrix()
                .toarray()
            )
            mixed = [
                [
                    sum(float(w) * half[j][k] for j, w in enumerate(row) if w)
                    for k in range(len(half[0]))
                ]
                for row in matrix
            ]
        for model, values in zip(self.models, mixed, strict=True):
            for p, value in zip(model.parameters(), values, strict=True):
                p.data.copy_(value)

    def parameters(self):
        return torch.stack(
            [torch.cat([p.detach().reshape(-1) for p in m.parameters()]) for m in self.models]
        )


@pytest.mark.parametrize("changes", [{}, {"local_steps": 3}, {"weight_decay": 0.01}])
@pytest.mark.parametrize("spec", ["base:k=1", "exponential", "one-peer-u-equidyn"])
def test_equals_a_naive_implementation(spec, changes):
    stacked = engine(topology=spec, **changes)
    naive = Naive(stacked)
    for step in range(20):
        stacked.advance()
        naive.step(step)
    assert (stacked.x_nd.double() - naive.parameters()).abs().max() < 2e-5


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_updates_in_blocks_are_the_same(name, monkeypatch):
    damping = {"damping": "auto"} if name == "d2" else {}
    changes = {"algorithm": name, "allow_unstable": True, "momentum": 0.5, **damping}
    whole = engine(**changes)
    for _ in range(6):
        whole.advance()
    monkeypatch.setattr(update, "BLOCK", 5 * 1000)
    blocks = engine(**changes)
    for _ in range(6):
        blocks.advance()
    assert torch.allclose(whole.x_nd, blocks.x_nd, atol=1e-6)
    for a, b in zip(whole.state, blocks.state, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_trains(name, tmp_path):
    damping = {"damping": "auto"} if name == "d2" else {}
    spec = "ring" if name in ("exact-diffusion", "decentlam") else "base:k=1"
    slow = {"momentum": 0.0, "lr": 0.2} if name not in MOMENTUM else {"lr": 0.05}
    if name == "decentlam":
        slow["lr"] = 0.01
    config = RunConfig(
        algorithm=name, topology=spec, nodes=6, epochs=25, alpha=1.0, **slow, **damping
    )
    rows = train(config, tmp_path / "run")
    assert rows[-1]["test_accuracy"] > 0.85
    assert rows[-1]["epoch"] == 25
    assert rows[-1]["consensus_distance"] < 5


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.parametrize("stop", [7, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 30))])
def test_resumes_bit_for_bit(name, stop, tmp_path):
    damping = {"damping": "auto"} if name == "d2" else {}
    config = RunConfig(algorithm=name, allow_unstable=True, lr=0.02, **SHORT, **damping)
    whole = train(config, tmp_path / "whole")

    def stepped(step, total, loss):
        if step == stop:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(bg.BasegraphError, match=f"SIGTERM after step {stop} of"):
        train(config, tmp_path / "cut", watcher=Watcher(stepped=stepped))
    resumed = train(config, tmp_path / "cut", resume=True)
    for a, b in zip(whole, resumed, strict=True):
        assert {**a, "seconds": 0} == {**b, "seconds": 0}
    tensors = [
        checkpoint.load(tmp_path / x / "checkpoint.safetensors")[0] for x in ("whole", "cut")
    ]
    assert tensors[0].keys() == tensors[1].keys()
    assert all(torch.equal(tensors[0][name], tensors[1][name]) for name in tensors[0])


def test_killed_run_resumes_from_its_last_checkpoint(tmp_path):
    """kill -9; what metrics.jsonl says after the checkpoint is computed again."""
    arguments = ["--nodes", 5, "--epochs", 8, "--batch", 16, "--evaluate-every", 1]
    out = tmp_path / "run"
    with held(tmp_path / "hold", "checkpoint", 5, "train", *arguments, "--out", out) as process:
        with pytest.raises(bg.InvalidArgument, match=f"is in use by process {process.pid} on "):
            train(RunConfig(), out, resume=True)
        refused = run_here("train", "--resume", "--out", out)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert f"is in use by process {process.pid} on {socket.gethostname()}" in refused.stderr
    facts = checkpoint.load(out / "checkpoint.safetensors")[1]
    assert facts["step"] == 4 * facts["steps_per_epoch"]
    assert [row["epoch"] for row in metrics(out)] == [1, 2, 3, 4, 5]
    ok("train", "--resume", "--out", out)
    rows = metrics(out)
    assert [row["epoch"] for row in rows] == list(range(1, 9))
    fresh = tmp_path / "fresh"
    ok("train", *arguments, "--out", fresh)
    assert [{**r, "seconds": 0} for r in rows] == [{**r, "seconds": 0} for r in metrics(fresh)]


def test_interrupt_writes_a_checkpoint_and_says_so(tmp_path):
    out, hold = tmp_path / "run", tmp_path / "hold"
    arguments = ["train", "--nodes", 5, "--epochs", 2, "--batch", 16, "--out", out]
    with held(hold, "step", 5, *arguments) as process:
        code, errors = process.end(signal.SIGINT)
    assert code == 128 + signal.SIGINT
    assert "stopped by SIGINT after step 5 of" in errors
    assert "--resume continues" in errors
    assert errors.count("\n") == 1
    assert (out / "checkpoint.safetensors").is_file()


def test_divergence_names_step_node_and_checkpoint(tmp_path):
    config = RunConfig(lr=1e4, **{**SHORT, "epochs": 20})
    with pytest.raises(Diverged, match=r"loss of node \d is (nan|inf) at step \d+; last good"):
        train(config, tmp_path / "run")


@pytest.mark.parametrize("cut", ["checkpoint.safetensors", "metrics.jsonl", "half a line"])
def test_resumes_whatever_a_kill_left(cut, tmp_path):
    config = RunConfig(**SHORT)
    whole = train(config, tmp_path / "whole")
    again = tmp_path / "again"
    train(config, again)
    left = again / f"{TEMPORARY}checkpoint.abcd1234.safetensors"
    left.write_bytes(b"half written")
    if cut == "half a line":
        text = (again / "metrics.jsonl").read_text()
        (again / "metrics.jsonl").write_text(text[:-20])
        expected = whole  # the last row is made again
    else:
        (again / cut).unlink()
        expected = whole if cut.startswith("checkpoint") else whole[-1:]
    rows = train(config, again, resume=True)
    assert [{**r, "seconds": 0} for r in rows] == [{**r, "seconds": 0} for r in expected]
    assert not left.exists()


def test_only_files_of_our_own_naming_are_cleared_away(tmp_path):
    config, out = RunConfig(**{**SHORT, "epochs": 1}), tmp_path / "run"
    train(config, out)
    (out / ".ipynb_checkpoints").mkdir()
    own = [out / ".my-checkpoint-notes.txt", out / ".checkpoint.backup12.safetensors",
           out / f"{TEMPORARY}checkpoint.mine.safetensors"]  # fmt: skip
    for file in own:
        file.write_text("mine")
    train(config, out, resume=True)
    assert [file.read_text() for file in own] == ["mine"] * 3
    assert (out / ".ipynb_checkpoints").is_dir()


def test_what_a_killed_write_leaves_is_found(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    with replacing(path) as temporary:
        assert leftovers(path) == [temporary]
        assert leftovers(tmp_path / "metrics.jsonl") == []
    assert leftovers(path) == []


def test_rows_of_other_numbers_of_nodes_stay(tmp_path):
    """With fewer nodes before, an epoch had more steps and a node had sent more."""
    config = RunConfig(**{**SHORT, "evaluate_every": 1})
    whole = train(config, tmp_path / "whole")

    def stop(row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", watcher=Watcher(evaluated=stop))
    folder = RunFolder(tmp_path / "run", resume=True)
    folder.keep([{**whole[0], "step": 10_000}])
    tensors, facts = checkpoint.load(folder.checkpoint)
    checkpoint.save(folder.checkpoint, tensors, {**facts, "bytes": facts["bytes"] + 5})
    rows = train(config, folder.path, resume=True)
    assert [row["epoch"] for row in rows] == [row["epoch"] for row in whole]
    assert rows[0]["step"] == 10_000
    assert rows[-1]["bytes_per_node"] == whole[-1]["bytes_per_node"] + 5


def test_a_folder_is_of_one_run_at_a_time(tmp_path):
    """Also within a process, and also before the first run has written anything."""
    config, out = RunConfig(**SHORT), tmp_path / "run"
    refused = []

    def another(facts):
        for resume in (False, True):
            with pytest.raises(
                bg.InvalidArgument, match=f"in use by process {os.getpid()} on"
            ) as e:
                train(config, out, resume=resume)
            refused.append(e)

    rows = train(config, out, watcher=Watcher(started=another))
    assert len(refused) == 2
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 4
    with pytest.raises(bg.InvalidArgument, match="in use"):
        train_together([Job(config, tmp_path / "two"), Job(config, tmp_path / "two")])
    assert not (tmp_path / "two").exists()


def test_other_data_are_not_resumed(tmp_path):
    digits = load("digits")
    config = RunConfig(**SHORT)
    train(config, tmp_path / "run", dataset=digits)
    order = np.arange(len(digits.train))[::-1]
    other = Dataset("digits", digits.train.take(order), digits.test, 10)
    with pytest.raises(bg.InvalidArgument, match="was run on other data or models"):
        train(config, tmp_path / "run", dataset=other, resume=True)


def test_models_that_blow_up_are_not_kept(tmp_path):
    config = RunConfig(lr=1e40, **{**SHORT, "batch": 400, "epochs": 1, "warmup": 0})
    with pytest.raises(Diverged, match=r"at step \d+; last good checkpoint: none yet"):
        train(config, tmp_path / "run")


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 7)), r"gives \(7,\) instead of 10 outputs"),
        (nn.Sequential(nn.Flatten(), nn.Linear(63, 10)), r"does not take images \(1, 8, 8\)"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).double(), "does not take images"),
    ],
)
def test_models_that_do_not_fit_are_refused(module, complaint, tmp_path):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        train(RunConfig(**SHORT), tmp_path / "run", module=module)
    assert not (tmp_path / "run").exists()


def test_curves_of_different_experiments_are_not_merged():
    base = vars(RunConfig())
    assert len(set(labels([base, {**base, "seed": 1}]))) == 1
    assert len(set(labels([base, {**base, "lr": 0.2}]))) == 2
    assert labels([base, {**base, "lr": 0.2}])[1] == "base:k=1, dsgdm, lr=0.2"


def test_bytes_are_counted():
    count = engine(topology="base:k=1", nodes=5)
    for _ in range(7):
        count.advance()
    size = count.x_nd.shape[1] * 4
    assert count.bytes_sent() == pytest.approx(7 * 4 / 5 * size)
    tracking = engine(topology="ring", nodes=5, algorithm="gradient-tracking")
    tracking.advance()
    assert tracking.bytes_sent() == pytest.approx(2 * 2 * size)
    reduced = engine(algorithm="allreduce-sgd", nodes=5)
    reduced.advance()
    assert reduced.bytes_sent() == pytest.approx(2 * 4 / 5 * size)
    rare = engine(topology="ring", nodes=5, local_steps=4)
    for _ in range(7):
        rare.advance()
    assert rare.bytes_sent() == pytest.approx(2 * size)


def test_config_goes_through_toml(tmp_path):
    config = RunConfig(nodes=7, lr=0.25, nesterov=True, data_dir='a "b" \\ c', topology="ring")
    path = tmp_path / "c.toml"
    path.write_text(config.to_toml())
    assert RunConfig(**read_toml(path)) == config


def test_every_field_has_its_line():
    assert set(field_help()) == set(RunConfig.__dataclass_fields__)


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
        ({"augment": "crop+blur"}, r"augment='crop\+blur'"),
        ({"damping": "2"}, r"damping='2': must be none, auto or in \(0, 1\]"),
        ({"device": "tpu"}, "device='tpu'"),
        ({"local_steps": 0}, "local_steps=0"),
    ],
)
def test_bad_fields(fields, complaint):
    with pytest.raises(bg.InvalidArgument, match=complaint):
        RunConfig(**fields)


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
    assert "holds a run already; --resume continues it" in again.stderr
    other = run_here("train", "--resume", "--out", folder, "--lr", "0.5")
    assert other.returncode == 2
    assert "lr=0.5: the checkpoint's run has 0.1" in other.stderr
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


def test_real_mnist_learns(shared_data, tmp_path):
    """A few steps of LeNet on the official files."""
    dataset = load("mnist", shared_data)
    small = Dataset(
        "mnist",
        dataset.train.take(np.arange(2000)),
        dataset.test.take(np.arange(500)),
        10,
    )
    config = RunConfig(
        dataset="mnist", model="lenet", nodes=4, epochs=6, alpha=10.0, lr=0.05, augment="none"
    )
    rows = train(config, tmp_path / "run", dataset=small)
    assert rows[-1]["test_accuracy"] > 0.85
