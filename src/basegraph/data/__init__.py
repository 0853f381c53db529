"""Datasets, their partition over nodes, and which samples a node sees at which step.

- `Dataset` and `Split`: images and labels, or windows of tokens, in memory (`dataset.py`).
- `load`, `download`: a dataset by its name (`catalog.py`). `DATASETS`: those that are read from the
  files that their authors publish (`published.py`; formats in `formats.py`, archives with limits in
  `archives.py`, pickles without running code in `pickled.py`).
- `text`: text files as windows of tokens, each file a domain (`_text.py`; bytes and tokenizer files
  in `tokenizer.py`; a small text of our own in `embedded`).
- `dirichlet`, `iid`, `by_domain`, `hold_out`, `heterogeneity`: who holds which samples
  (`partition.py`).
- `SamplePlanner`: the samples and augmentations of every step, a pure function of seed, node and
  step (`plan.py`; its random numbers in `philox.py`). `augment.py` applies them to tensors: it is
  the only module here that needs torch, and importing `basegraph.data` does not import it.

>>> from basegraph.data import dirichlet, heterogeneity, load
>>> digits = load("digits")
>>> digits.train.inputs.shape, digits.classes
((1438, 1, 8, 8), 10)
>>> parts = dirichlet(digits.train.targets, nodes=25, alpha=0.1, seed=0)
>>> parts.shape
(25, 57)
>>> round(heterogeneity(digits.train.targets, parts), 2)
0.67
"""

from basegraph.data._text import text
from basegraph.data.catalog import download, load
from basegraph.data.dataset import DataError, Dataset, Split, Text
from basegraph.data.partition import by_domain, dirichlet, heterogeneity, hold_out, iid
from basegraph.data.plan import EpochPlan, SamplePlanner
from basegraph.data.published import DATASETS

__all__ = [
    "DATASETS",
    "DataError",
    "Dataset",
    "EpochPlan",
    "SamplePlanner",
    "Split",
    "Text",
    "by_domain",
    "dirichlet",
    "download",
    "heterogeneity",
    "hold_out",
    "iid",
    "load",
    "text",
]
