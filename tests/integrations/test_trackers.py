"""TensorBoard, W&B and MLflow: by the real packages where they are, and by fakes anywhere."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

from basegraph.extras import EXTRAS
from basegraph.integrations.trackers import TRACKERS, MLflow, TensorBoard, WandB
from basegraph.training.loggers import Logger
from support.cli import ok, run_here
from support.extras import needs

SMALL = ["--nodes", "4", "--epochs", "2", "--evaluate-every", "1", "--seed", "3"]


@pytest.fixture
def calls(monkeypatch):
    """What the packages are told, by fakes in their place."""
    calls: list[tuple[object, ...]] = []

    def recorder(name, result=None):
        def call(*args, **kwargs):
            calls.append((name, *args, kwargs) if kwargs else (name, *args))
            return result

        return call

    run = SimpleNamespace(log=recorder("log"), finish=recorder("finish"))
    wandb, mlflow, tracking = (ModuleType(n) for n in ("wandb", "mlflow", "mlflow.tracking"))
    wandb.init = recorder("init", run)
    created = SimpleNamespace(info=SimpleNamespace(run_id="r1"))
    tracking.MlflowClient = lambda: SimpleNamespace(
        get_experiment_by_name=lambda name: None,
        create_experiment=lambda name: f"id of {name}",
        create_run=recorder("create_run", created),
        log_param=recorder("log_param"),
        log_metric=recorder("log_metric"),
        set_terminated=recorder("set_terminated"),
    )
    for module in (wandb, mlflow, tracking):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return calls


def test_wandb_by_a_fake(calls):
    tracker = WandB(project="mine", config={"lr": 0.1})
    assert isinstance(tracker, Logger)
    tracker.log(7, {"loss": 0.5})
    tracker.close()
    assert calls == [
        ("init", {"project": "mine", "config": {"lr": 0.1}}),
        ("log", {"loss": 0.5}, {"step": 7}),
        ("finish",),
    ]


def test_mlflow_by_a_fake(calls):
    tracker = MLflow("mine", "first", {"lr": 0.1})
    assert isinstance(tracker, Logger)
    tracker.log(7, {"loss": 0.5, "bytes_sent": 12})
    tracker.close()
    assert calls == [
        ("create_run", "id of mine", {"run_name": "first"}),
        ("log_param", "r1", "lr", 0.1),
        ("log_metric", "r1", "loss", 0.5, {"step": 7}),
        ("log_metric", "r1", "bytes_sent", 12, {"step": 7}),
        ("set_terminated", "r1"),
    ]


def test_the_train_command_tells_both(calls, tmp_path):
    ok("train", *SMALL, "--log", "wandb,mlflow,wandb", "--out", "run", cwd=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    (opened,) = [call for call in calls if call[0] == "init"]
    assert (opened[1]["name"], opened[1]["config"]["seed"]) == ("run", 3)
    logged = [call for call in calls if call[0] == "log"]
    assert [call[2]["step"] for call in logged] == [row["step"] for row in rows]
    assert logged[-1][1]["test_accuracy"] == rows[-1]["test_accuracy"]
    assert ("log_metric", "r1", "train_loss", rows[0]["train_loss"], {"step": rows[0]["step"]}) in (
        calls
    )
    assert calls.count(("finish",)) == calls.count(("set_terminated", "r1")) == 1


def test_unknown_trackers_are_refused(tmp_path):
    done = run_here("train", *SMALL, "--log", "tensorbord", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith(
        "--log='tensorbord': did you mean 'tensorboard'? Known: mlflow, tensorboard, wandb\n"
    )
    assert not (tmp_path / "run").exists()
    assert TRACKERS.keys() <= EXTRAS.keys()


@pytest.mark.parametrize("flags", [["--tensorboard"], ["--log", "tensorboard"]])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of tensorboard
def test_tensorboard(flags, tmp_path):
    needs("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    ok("train", *SMALL, *flags, "--out", "run", cwd=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == rows[0].keys() - {"epoch", "step"}
    points = events.Scalars("test_accuracy")
    assert [point.step for point in points] == [row["step"] for row in rows]
    assert [point.value for point in points] == pytest.approx([r["test_accuracy"] for r in rows])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_in_a_script(tmp_path):
    needs("tensorboard")
    tracker = TensorBoard(tmp_path)
    assert isinstance(tracker, Logger)
    tracker.log(0, {"loss": 1.0})
    tracker.close()
    assert list(tmp_path.glob("events.out.*"))


@pytest.mark.filterwarnings("ignore")  # of wandb
def test_wandb_offline(tmp_path, monkeypatch):
    needs("wandb")
    for name, value in {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}.items():
        monkeypatch.setenv(name, value)
    tracker = WandB(project="mine", dir=str(tmp_path))
    tracker.log(3, {"loss": 0.5})
    tracker.close()
    sys.modules["wandb"].teardown()  # waits until the process that writes has ended
    (file,) = tmp_path.rglob("run-*.wandb")
    assert b"loss" in file.read_bytes()


@pytest.mark.filterwarnings("ignore")  # of mlflow
def test_mlflow_in_files(tmp_path, monkeypatch):
    needs("mlflow")
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    for step in (3, 5):  # a second run of the same experiment
        tracker = MLflow("mine", "first", {"lr": 0.1})
        tracker.log(step, {"loss": 0.5})
        tracker.close()
    client = MlflowClient()
    runs = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    assert len(runs) == 2
    for run in runs:
        assert run.info.status == "FINISHED"
        assert run.data.params == {"lr": "0.1"}
        (point,) = client.get_metric_history(run.info.run_id, "loss")
        assert (point.value, point.step in (3, 5)) == (0.5, True)
