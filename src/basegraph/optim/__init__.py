"""Decentralized optimizers for PyTorch scripts that are started with torchrun."""
