"""Hugging Face transformers: a tiny GPT-2 with a `Trainer` that gossips.

    torchrun --nproc-per-node 4 examples/with_transformers.py [FOLDER]

Stopped and run again with the same folder, it goes on from the average of all nodes.
Needs: pip install 'basegraph[hf]'
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments, set_seed

from basegraph.integrations.transformers import GossipTrainer


def sentences(node: int, count: int = 64) -> list[dict[str, torch.Tensor]]:
    """What this node has to learn from: it counts upwards from numbers of its own."""
    draws = torch.Generator().manual_seed(node)
    starts = torch.randint(0, 32, (count, 1), generator=draws)
    tokens = (starts + torch.arange(16)) % 32
    return [{"input_ids": row, "labels": row} for row in tokens]


def main() -> None:
    """Train, and say how good the average of all nodes' models is."""
    folder = sys.argv[1] if len(sys.argv) > 1 else "checkpoints"
    set_seed(0)
    small = {"n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 32, "n_positions": 16}
    model = GPT2LMHeadModel(GPT2Config(**small, bos_token_id=0, eos_token_id=0))
    args = TrainingArguments(
        folder,
        max_steps=60,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        learning_rate=0.01,
        warmup_steps=5,
        save_steps=20,
        eval_strategy="steps",
        eval_steps=20,
        logging_steps=20,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    # 1. `gossip` has the arguments of bg.Gossip, around the AdamW that Trainer makes.
    # 2. With own_data, train_dataset is this node's; without, nodes share one dataset.
    trainer = GossipTrainer(
        model=model,
        args=args,
        train_dataset=sentences(int(os.environ["RANK"])),
        eval_dataset=sentences(node=100),
        gossip={"topology": "base:k=1"},
        own_data=True,
    )
    saved = sorted(Path(folder).glob("checkpoint-*"))
    trainer.train(resume_from_checkpoint=True if saved else None)
    # 3. All nodes have the average now; evaluations and checkpoints on the way were of it, too.
    loss = trainer.evaluate()["eval_loss"]
    if trainer.is_world_process_zero():
        sent = trainer.gossip.traffic.bytes_sent / 1e6
        steps = trainer.state.global_step
        print(f"loss of the average {loss:.3f} after {steps} steps, {sent:.1f} MB sent by node 0")
        trainer.save_model(f"{folder}/average")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
