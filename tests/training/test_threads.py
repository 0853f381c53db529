"""How many threads torch uses in a run, and that it is as before afterwards."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import basegraph as bg
from basegraph import cli
from basegraph.data.dataset import Dataset, Split
from basegraph.models.flat import FlatModel
from basegraph.models.layers import layer_outputs, multiply_adds
from basegraph.models.networks import build
from basegraph.training import threads
from basegraph.training._train import train
from basegraph.training.config import RunConfig
from basegraph.training.threads import Threads, choose_threads, using_threads
from basegraph.training.watcher import Watcher

CPU = torch.device("cpu")


@pytest.fixture
def eight_threads(monkeypatch):
    """A machine whose torch uses eight threads, and a user who has not said how many."""
    for name in threads.SET_BY_USER:
        monkeypatch.delenv(name, raising=False)
    with using_threads(8):
        yield


def chosen(model="mlp", shape=(1, 8, 8), nodes=25, **fields):
    split = Split(np.zeros((2000, *shape), np.uint8), np.arange(2000) % 10)
    dataset = Dataset("zeros", split, split, 10)
    module = FlatModel(build(model, shape, 10, 0))
    return choose_threads(RunConfig(nodes=nodes, **fields), module, dataset, CPU, nodes)


def test_multiply_adds_are_counted():
    outputs = layer_outputs(build("lenet", (1, 28, 28), 10, 0), torch.zeros(1, 1, 28, 28))
    products = [n for layer, output in outputs if (n := multiply_adds(layer, output))]
    assert products == [24 * 24 * 25 * 6, 8 * 8 * 150 * 16, 256 * 120, 120 * 84, 84 * 10]


@pytest.mark.usefixtures("eight_threads")
def test_small_layers_have_one_thread_and_large_ones_all():
    assert chosen().steps == 1
    assert chosen("lenet", (1, 28, 28), batch=32).steps == 1
    assert chosen("vgg11", (3, 32, 32), batch=32).steps == 8
    assert 1 < chosen("vgg11", (3, 32, 32), batch=2).steps < 8
    assert chosen(nodes=1000, batch=64).steps == 8
    assert chosen("lenet", (1, 28, 28), nodes=5).evaluations > 1


@pytest.mark.usefixtures("eight_threads")
def test_the_user_decides(monkeypatch):
    assert chosen(threads=3) == Threads(3, 3)
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert chosen() == Threads(8, 8)


def test_not_more_than_torch_uses_already(monkeypatch):
    for name in threads.SET_BY_USER:
        monkeypatch.delenv(name, raising=False)
    with using_threads(2):
        assert chosen("vgg11", (3, 32, 32), batch=32).steps == 2


def test_a_run_uses_them_and_leaves_torch_as_it_was(tmp_path):
    seen = []
    watcher = Watcher(stepped=lambda *_: seen.append(torch.get_num_threads()))
    with using_threads(2):
        config = RunConfig(nodes=3, epochs=1, threads=1)
        train(config, tmp_path / "run", watcher=watcher)
        assert torch.get_num_threads() == 2
        assert set(seen) == {1}
        with pytest.raises(bg.InvalidArgument, match="holds a run already"):
            train(config, tmp_path / "run")
        assert torch.get_num_threads() == 2


def test_resumes_with_another_number(tmp_path):
    config = RunConfig(nodes=3, epochs=1, threads=1)
    rows = train(config, tmp_path / "run")
    again = train(RunConfig(nodes=3, epochs=1, threads=2), tmp_path / "run", resume=True)
    assert rows == again


@pytest.mark.parametrize("policy", [None, "ACTIVE"])
def test_threads_of_the_command_line_sleep_unless_told_otherwise(policy, monkeypatch, capsys):
    monkeypatch.setenv("OMP_WAIT_POLICY", policy or "")
    if policy is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    monkeypatch.setattr(sys, "argv", ["basegraph", "--version"])
    with pytest.raises(SystemExit):
        cli.main()
    assert os.environ["OMP_WAIT_POLICY"] == (policy or "PASSIVE")


def test_the_command_line_sets_it_before_torch_is_loaded():
    code = "import sys, basegraph.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("count", [-1, 2**40])
def test_impossible_numbers_are_refused(count):
    with pytest.raises(bg.InvalidArgument, match=f"threads={count}: must be an integer ≥ 0"):
        RunConfig(threads=count)
