"""Hugging Face transformers: a `Trainer` that gossips."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from basegraph.errors import BasegraphError
from basegraph.extras import optional_imports
from basegraph.integrations.accelerate import without_ddp
from basegraph.integrations.counts import counts_of_nodes
from basegraph.optim.gossip import Gossip
from basegraph.optim.node_optimizer import NodeOptimizer

with optional_imports():
    from accelerate.data_loader import BatchSamplerShard
    from transformers import Trainer, TrainerCallback


class GossipTrainer(Trainer):  # type: ignore[misc]
    """A `transformers.Trainer` whose processes are nodes that gossip, instead of DDP.

    Evaluations and checkpoints are of the average of all models, and so is the model at the end:
    one checkpoint serves any number of nodes, and resuming goes on from the average. (AdamW's
    moments are then node 0's, on all nodes.)

    Args:
        *args: As for `Trainer`.
        gossip: Arguments of `bg.Gossip`, such as topology and local_steps, around the optimizer
            that `Trainer` makes. Not for a `bg.DecentralizedOptimizer` that `optimizers` has.
        own_data: Whether train_dataset is this node's own. Otherwise it is the same everywhere, and
            each node gets its share.
        **kwargs: As for `Trainer`.

    """

    gossip: NodeOptimizer | None = None
    """What gossips, once training has begun: `consensus()`, `averaged()`, `traffic`."""

    def __init__(
        self,
        *args: Any,
        gossip: Mapping[str, Any] | None = None,
        own_data: bool = False,
        **kwargs: Any,
    ) -> None:
        self._options = dict(gossip or {})
        self._own_data = own_data
        super().__init__(*args, **kwargs)
        # It would gather the number of tokens from all nodes at every step.
        self.args.average_tokens_across_devices = False
        self.add_callback(_Nodes(self))

    def create_accelerator_and_postprocess(self) -> None:
        """Make the accelerator, which leaves the model without DDP."""
        super().create_accelerator_and_postprocess()
        without_ddp(self.accelerator)

    def create_optimizer(self, *args: Any, **kwargs: Any) -> Any:
        """Make the optimizer, and let it gossip."""
        optimizer = super().create_optimizer(*args, **kwargs)
        if self.gossip is None:
            if isinstance(optimizer, NodeOptimizer):
                self.gossip = optimizer
            else:
                self.gossip = Gossip(optimizer, **{"model": self.model, **self._options})
            self.optimizer = self.gossip
        return self.optimizer

    def get_train_dataloader(self) -> Any:
        """Batches of this node's share of the data, or of its own."""
        loader = super().get_train_dataloader()
        shards = getattr(loader, "batch_sampler", None)
        if self._own_data and isinstance(shards, BatchSamplerShard):
            shards.num_processes, shards.process_index = 1, 0
        return loader

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate the average of all models."""
        with self._averaged():
            metrics: dict[str, float] = super().evaluate(*args, **kwargs)
        return metrics

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Save the average of all models, with a state that goes with it."""
        with self._averaged():
            super()._save_checkpoint(*args, **kwargs)

    def _averaged(self) -> AbstractContextManager[None]:
        """The average of all models while nodes train; afterwards, all have it."""
        training = self.gossip is not None and self.is_in_train
        return self.gossip.averaged() if training else nullcontext()  # type: ignore[union-attr]

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log what is to be logged, and what this node has sent."""
        if self.gossip is not None and "loss" in logs:
            logs["bytes_sent"] = float(self.gossip.traffic.bytes_sent)
        super().log(logs, *args, **kwargs)


class _Nodes(TrainerCallback):  # type: ignore[misc]
    """Nodes begin with the same number of steps, and end with the same model."""

    def __init__(self, trainer: GossipTrainer) -> None:
        self._trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Refuse nodes that would wait for each other forever."""
        steps = counts_of_nodes(state.max_steps, args.device)
        if len(set(steps)) > 1:
            raise BasegraphError(
                f"the nodes have {steps} steps to make, by their data: set max_steps= in "
                f"TrainingArguments"
            )

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Bring all nodes to the exact average."""
        gossip = self._trainer.gossip
        assert gossip is not None
        gossip.consensus()
