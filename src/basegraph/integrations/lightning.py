"""Lightning: a strategy whose processes are nodes that gossip."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch

from basegraph.errors import BasegraphError
from basegraph.extras import optional_imports
from basegraph.integrations.counts import counts_of_nodes
from basegraph.optim.node_optimizer import NodeOptimizer

with optional_imports():
    from lightning.pytorch.strategies import DDPStrategy


class GossipStrategy(DDPStrategy):  # type: ignore[misc]
    """Lightning's DDP strategy without DDP: every process is a node with gradients of its own.

    `configure_optimizers` returns a `bg.Gossip` or a `bg.DecentralizedOptimizer`. Validations and
    checkpoints are of the average of all models, and so is the model at the end: one checkpoint
    serves any number of nodes, and `ckpt_path` goes on from the average. (AdamW's moments are then
    node 0's, on all nodes.)

    Args:
        **options: As for `DDPStrategy`, such as process_group_backend; those of DDP are ignored.

    """

    _shown: ExitStack | None = None
    """What ends the average that is shown while nodes validate."""

    def configure_ddp(self) -> None:
        """Leave the model as it is: DDP would average the gradients of all nodes."""

    def setup_optimizers(self, trainer: Any) -> None:
        """Make the optimizers, which must gossip."""
        super().setup_optimizers(trainer)
        self.require_gossip(self.optimizers)
        if getattr(self.precision_plugin, "scaler", None) is None:
            for optimizer in self.optimizers:
                # Lightning refuses to clip what unscales by itself, also where nothing is scaled.
                optimizer._step_supports_amp_scaling = False

    @staticmethod
    def require_gossip(optimizers: list[torch.optim.Optimizer]) -> None:
        """Refuse optimizers with which every node would train alone."""
        for optimizer in optimizers:
            if not isinstance(optimizer, NodeOptimizer):
                raise BasegraphError(
                    f"configure_optimizers returns {type(optimizer).__name__}, with which nodes "
                    f"would not exchange anything: return bg.Gossip(...) around it"
                )

    def on_train_start(self) -> None:
        """Refuse nodes that would wait for each other forever."""
        super().on_train_start()
        assert self.lightning_module is not None
        count = self.lightning_module.trainer.num_training_batches
        batches = counts_of_nodes(count, self.root_device)
        if len(set(batches)) > 1:
            raise BasegraphError(
                f"the nodes have {batches} batches an epoch: set limit_train_batches= of Trainer"
            )

    def on_validation_start(self) -> None:
        """Show the average of all models while nodes validate."""
        super().on_validation_start()
        self._shown = self._averaged()

    def on_validation_end(self) -> None:
        """Go on with this node's own model."""
        if self._shown is not None:
            self._shown.close()
            self._shown = None
        super().on_validation_end()

    def on_train_end(self) -> None:
        """Bring all nodes to the exact average."""
        super().on_train_end()
        for optimizer in self.optimizers:
            optimizer.consensus()

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """The average of all models, for a checkpoint."""
        with self._averaged():
            state = super().lightning_module_state_dict()
            return {
                name: value.clone() if isinstance(value, torch.Tensor) else value
                for name, value in state.items()
            }

    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        """A state that goes with the average, for a checkpoint."""
        with self._averaged():
            state: dict[str, Any] = super().optimizer_state(optimizer)
        return state

    def _averaged(self) -> ExitStack:
        """Show the average of all models until this is closed, unless it is shown already."""
        with ExitStack() as entered:
            for optimizer in () if self._shown is not None else self.optimizers:
                entered.enter_context(optimizer.averaged())
            return entered.pop_all()
