"""A framework's loop against a plain loop with the same optimizer; run by torchrun.

frameworks.py accelerate|transformers|lightning FOLDER
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import basegraph as bg
from support.launch import leave

STEPS, ACCUMULATED, BATCH = 8, 2, 4


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def data(node: int) -> tuple[Tensor, Tensor]:
    """Of this node alone, in the order in which it is used."""
    draws = torch.Generator().manual_seed(node)
    x = torch.randn(STEPS * ACCUMULATED * BATCH, 3, generator=draws) + node
    return x, x.sum(dim=1, keepdim=True)


def optimizer_of(net: nn.Module) -> bg.Gossip:
    adamw = torch.optim.AdamW(net.parameters(), lr=0.03, weight_decay=0.0)
    return bg.Gossip(adamw, "base:k=1", model=net)


def schedule_of(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / (2 * STEPS))


def plain() -> tuple[Tensor, Tensor]:
    """This node's own model after the last step, and the average of all."""
    net, node = network(), dist.get_rank()
    optimizer = optimizer_of(net)
    schedule = schedule_of(optimizer)
    x, y = (part.split(ACCUMULATED * BATCH) for part in data(node))
    for inputs, targets in zip(x, y, strict=True):
        optimizer.zero_grad()
        functional.mse_loss(net(inputs), targets).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    own = nn.utils.parameters_to_vector(net.parameters()).detach().clone()
    optimizer.consensus()
    return own, nn.utils.parameters_to_vector(net.parameters()).detach()


def by_accelerate(folder: str) -> tuple[Tensor, nn.Module]:
    from accelerate import Accelerator

    from basegraph.integrations.accelerate import without_ddp

    accelerator = without_ddp(
        Accelerator(
            cpu=True, gradient_accumulation_steps=ACCUMULATED, step_scheduler_with_optimizer=False
        )
    )
    net = network()
    gossip = optimizer_of(net)
    model, optimizer, schedule = accelerator.prepare(net, gossip, schedule_of(gossip))
    assert model is net
    # Not prepared: it has this node's own data.
    loader = DataLoader(TensorDataset(*data(accelerator.process_index)), BATCH)
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            accelerator.backward(functional.mse_loss(model(inputs), targets))
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if accelerator.sync_gradients:
                schedule.step()
            optimizer.zero_grad()
    own = nn.utils.parameters_to_vector(net.parameters()).detach().clone()
    with gossip.averaged():
        accelerator.save_state(folder)
        average = nn.utils.parameters_to_vector(net.parameters()).detach().clone()
    dist.barrier()
    accelerator.load_state(folder)
    assert torch.equal(nn.utils.parameters_to_vector(net.parameters()), average)
    assert gossip.gossip_step == STEPS
    gossip.consensus()
    return own, net


def by_transformers(folder: str) -> tuple[Tensor, nn.Module]:
    from transformers import TrainerCallback, TrainingArguments

    from basegraph.integrations.transformers import GossipTrainer

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
            outputs = self.net(x)
            return {"loss": functional.mse_loss(outputs, labels), "logits": outputs}

    def trainer(steps: int) -> GossipTrainer:
        args = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=BATCH,
            gradient_accumulation_steps=ACCUMULATED,
            train_sampling_strategy="sequential",
            save_steps=STEPS // 2,
            eval_strategy="steps",
            eval_steps=STEPS // 2,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        model = Model()
        gossip = optimizer_of(model)
        x, y = data(dist.get_rank())
        return GossipTrainer(
            model=model,
            args=args,
            train_dataset=[{"x": a, "labels": b} for a, b in zip(x, y, strict=True)],
            eval_dataset=[{"x": a, "labels": b} for a, b in zip(x[:6], y[:6], strict=True)],
            optimizers=(gossip, schedule_of(gossip)),
            own_data=True,
        )

    class Keep(TrainerCallback):
        own: Tensor

        def on_step_end(self, args, state, control, model, **kwargs) -> None:  # type: ignore
            self.own = nn.utils.parameters_to_vector(model.parameters()).detach().clone()

    kept, first = Keep(), trainer(STEPS)
    first.add_callback(kept)
    first.train()
    assert type(first.model_wrapped) is Model
    average = first.evaluate()["eval_loss"]
    again = trainer(STEPS)
    again.train(resume_from_checkpoint=f"{folder}/checkpoint-{STEPS}")
    assert abs(again.evaluate()["eval_loss"] - average) < 1e-5
    assert again.gossip is not None
    assert again.gossip.gossip_step == STEPS
    return kept.own, first.model


def by_lightning(folder: str) -> tuple[Tensor, nn.Module]:
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

    from basegraph.integrations.lightning import GossipStrategy

    validated: list[Tensor] = []

    class Model(lightning.LightningModule):  # type: ignore
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def training_step(self, batch, index) -> Tensor:  # type: ignore
            return functional.mse_loss(self.net(batch[0]), batch[1])

        def validation_step(self, batch, index) -> None:  # type: ignore
            validated.append(nn.utils.parameters_to_vector(self.net.parameters()).detach().clone())

        def on_train_end(self) -> None:
            self.own = nn.utils.parameters_to_vector(self.net.parameters()).detach().clone()

        def configure_optimizers(self):  # type: ignore
            optimizer = optimizer_of(self)
            schedule = {"scheduler": schedule_of(optimizer), "interval": "step"}
            return {"optimizer": optimizer, "lr_scheduler": schedule}

    def trainer(epochs: int, precision: str) -> lightning.Trainer:
        return lightning.Trainer(
            precision=precision,
            strategy=GossipStrategy(process_group_backend="gloo"),
            accelerator="cpu",
            devices=dist.get_world_size(),
            max_epochs=epochs,
            accumulate_grad_batches=ACCUMULATED,
            gradient_clip_val=1.0,
            use_distributed_sampler=False,
            callbacks=[ModelCheckpoint(folder, save_last=True)],
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )

    own_data = TensorDataset(*data(dist.get_rank()))
    loader, validation = DataLoader(own_data, BATCH), DataLoader(own_data, len(own_data))
    model, first = Model(), trainer(1, "32-true")
    first.fit(model, loader, validation)
    assert first.strategy.model is model
    average = nn.utils.parameters_to_vector(model.parameters()).detach()
    assert torch.allclose(validated[-1], average, atol=1e-6), "validates the average"
    again, second = Model(), trainer(2, "bf16-mixed")
    saved = torch.load(f"{folder}/last.ckpt", weights_only=True)["state_dict"]
    for name, value in model.state_dict().items():
        assert torch.allclose(saved[name], value, atol=1e-6), "the checkpoint has the average"
    second.fit(again, loader, validation, ckpt_path=f"{folder}/last.ckpt")
    assert second.optimizers[0].gossip_step == 2 * STEPS
    return model.own, model


def main() -> None:
    framework, folder = sys.argv[1:]
    dist.init_process_group("gloo")
    own, model = {
        "accelerate": by_accelerate,
        "transformers": by_transformers,
        "lightning": by_lightning,
    }[framework](folder)
    expected_own, expected = plain()
    got = nn.utils.parameters_to_vector(model.parameters()).detach()
    assert torch.allclose(own, expected_own, atol=1e-5), (own - expected_own).abs().max()
    assert torch.allclose(got, expected, atol=1e-5), (got - expected).abs().max()
    apart = (own - got).abs().max()
    dist.all_reduce(apart, op=dist.ReduceOp.MAX)
    assert apart > 1e-3, "nodes have models of their own while they train"
    print(f"node {dist.get_rank()}: the same", flush=True)
    leave()


if __name__ == "__main__":
    main()
