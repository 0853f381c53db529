"""TensorBoard, Weights & Biases and MLflow behind one interface: `log(step, values)`, `close()`.

They go with `bg.train(..., loggers=[...])`, with `basegraph train --log`, and into scripts:

    tracker = TensorBoard("runs/mine")
    tracker.log(step, {"loss": loss.item(), "bytes_sent": optimizer.traffic.bytes_sent})
    tracker.close()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from basegraph.extras import optional_imports
from basegraph.training.loggers import Logger


class TensorBoard:
    """Writes TensorBoard's event files.

    Args:
        folder: Where they are: `tensorboard --logdir FOLDER`.

    Raises:
        MissingExtra: tensorboard is not installed.

    """

    def __init__(self, folder: Path | str) -> None:
        with optional_imports():
            from torch.utils.tensorboard import SummaryWriter
        self._writer: Any = SummaryWriter(str(folder))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write the values of a step."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class WandB:
    """Sends numbers to Weights & Biases, or keeps them on disk with `WANDB_MODE=offline`.

    Args:
        **options: Of `wandb.init`, such as project, name, dir and config.

    Raises:
        MissingExtra: wandb is not installed.

    """

    def __init__(self, **options: Any) -> None:
        with optional_imports():
            import wandb
        self._run: Any = wandb.init(**options)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Send the values of a step."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """Send what is left."""
        self._run.finish()


class MLflow:
    """Sends numbers to MLflow, to where `MLFLOW_TRACKING_URI` says.

    Args:
        experiment: The experiment's name; MLflow's default if None.
        name: The run's.
        parameters: Settings of the run.

    Raises:
        MissingExtra: mlflow is not installed.

    """

    def __init__(
        self,
        experiment: str | None = None,
        name: str | None = None,
        parameters: Mapping[str, object] | None = None,
    ) -> None:
        with optional_imports():
            from mlflow.tracking import MlflowClient
        self._client: Any = MlflowClient()
        self._run = self._client.create_run(self._experiment(experiment), run_name=name).info.run_id
        for key, value in (parameters or {}).items():
            self._client.log_param(self._run, key, value)

    def _experiment(self, name: str | None) -> str:
        if name is None:
            return "0"
        known = self._client.get_experiment_by_name(name)
        made: str = self._client.create_experiment(name) if known is None else known.experiment_id
        return made

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Send the values of a step."""
        for name, value in values.items():
            self._client.log_metric(self._run, name, value, step=step)

    def close(self) -> None:
        """Let the run be finished."""
        self._client.set_terminated(self._run)


PROJECT = "basegraph"
"""What runs of the command line belong to, where the tracker knows projects."""

TRACKERS: dict[str, Callable[[Path, Mapping[str, object]], Logger]] = {
    "tensorboard": lambda run, settings: TensorBoard(run / "tensorboard"),
    "wandb": lambda run, settings: WandB(
        project=PROJECT, name=run.name, dir=str(run), config=dict(settings)
    ),
    "mlflow": lambda run, settings: MLflow(PROJECT, run.name, settings),
}
"""By the name of the package: a tracker of the run in this folder, with these settings."""
