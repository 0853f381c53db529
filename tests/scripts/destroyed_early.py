"""A checkpoint in the background whose process group is destroyed at once: whole, or none."""

import logging
import sys

import torch
import torch.distributed as dist

import basegraph as bg

folder = sys.argv[1]
logging.basicConfig()
model = torch.nn.Linear(64, 64)
optimizer = bg.Gossip(torch.optim.SGD(model.parameters(), lr=0.1))
bg.save_checkpoint(folder, model, optimizer, keep=1)
torch.nn.init.ones_(model.weight)
optimizer.keep_model()
bg.save_checkpoint(folder, model, optimizer, keep=1, background=True)
dist.destroy_process_group()
