"""The paper's experiments as functions that write files, comparisons, and sweeps of runs.

- `consensus.py`, `lengths.py`, `illustrations.py`, `table.py`: the paper's figures and table about
  topologies. Each measures (`measure`, `comparison`) and reproduces (`reproduce`).
- `scaling.py`: what a step and the exact average cost on a network, by a model.
- `_advise.py`: which topology and order to take (`bg.advise`), by that model and by what our runs
  say about accuracy (`measured_accuracy.py`, a table made from docs/results).
- `grid.py`: grids of configurations, from a sweep's file or from Python.
- `sweep.py`: the runs of a grid, many side by side, on this machine; `on_ray.py` on a Ray cluster.
- `campaign.py`: the skeleton of an experiment of many runs, whose learning rates are chosen on one
  seed and which can be made in pieces. `learning.py` (the paper's training figures, which
  `figures.py` lists) and `language.py` are made of it; `learning_report.py`, `claims.py` (what the
  paper says, and what the runs say of it) and `language_report.py` write their tables.
- `pairs.py`: a training experiment, made of sweeps.
- `reporting.py` says where runs came from, `statistics.py` sums up seeds.
- `store.py`: the folder of an experiment's results.

Sweeps and training experiments need torch (`pip install 'basegraph[train]'`), figures matplotlib
(`pip install 'basegraph[plots]'`). Both are imported where they are used: import the modules.

>>> from basegraph.experiments.lengths import measure
>>> measure(["simple-base", "base"], n=25, k=1)
{'k': 1, 'n': 25, 'simple-base': 9, 'base': 9, 'theorem_1': 11, 'lower_bound': 6}
>>> from basegraph.experiments import VGG_11_PARAMETERS
>>> 4 * VGG_11_PARAMETERS  # bytes of the model whose exchange the tables cost
36924456
"""

VGG_11_PARAMETERS = 9_231_114
"""Of `basegraph.models`' VGG-11 for 32x32 color images and ten classes: the model of the costs."""

__all__ = ["VGG_11_PARAMETERS"]
