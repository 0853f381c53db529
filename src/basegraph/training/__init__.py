"""Training: configuration, the loop, evaluation, checkpoints and the folder of a run."""
