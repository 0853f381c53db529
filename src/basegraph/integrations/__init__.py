"""Frameworks with a training loop of their own, and trackers of experiments.

- `without_ddp` (`accelerate.py`): Hugging Face Accelerate without DDP.
- `GossipTrainer` (`transformers.py`): Hugging Face's `Trainer`, whose processes gossip.
- `GossipStrategy` (`lightning.py`): the same for Lightning's `Trainer`.
- `TensorBoard`, `WandB`, `MLflow` (`trackers.py`): loggers of `bg.train` and of scripts.

Each needs the package it is named after, with an extra: `hf`, `lightning`, `tensorboard`, `wandb`
or `mlflow`, as in `pip install 'basegraph[hf]'`.
"""

from typing import TYPE_CHECKING

from basegraph.lazy import lazy_names

if TYPE_CHECKING:
    from basegraph.integrations.accelerate import without_ddp
    from basegraph.integrations.lightning import GossipStrategy
    from basegraph.integrations.trackers import MLflow, TensorBoard, WandB
    from basegraph.integrations.transformers import GossipTrainer
else:
    _HOMES = {
        "without_ddp": "basegraph.integrations.accelerate",
        "GossipStrategy": "basegraph.integrations.lightning",
        "MLflow": "basegraph.integrations.trackers",
        "TensorBoard": "basegraph.integrations.trackers",
        "WandB": "basegraph.integrations.trackers",
        "GossipTrainer": "basegraph.integrations.transformers",
    }
    _NEEDS = {
        "without_ddp": "accelerate",
        "GossipStrategy": "lightning",
        "GossipTrainer": "transformers",
        **dict.fromkeys(("MLflow", "TensorBoard", "WandB"), "torch"),
    }
    __getattr__, __dir__ = lazy_names(__name__, _HOMES, _NEEDS)

__all__ = [
    "GossipStrategy",
    "GossipTrainer",
    "MLflow",
    "TensorBoard",
    "WandB",
    "without_ddp",
]
