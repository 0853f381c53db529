"""One node per process, torch.distributed underneath."""
