"""Networks, and modules as functions of flat vectors: one node's parameters, or all nodes' at once.

- `MODELS` and `build` (`networks.py`): an MLP, LeNet, VGG-11, ResNet-18, with group normalization
  in place of batch normalization, so that a model is its parameters; transformers for tokens.
- `GPT` (`gpt.py`): the transformer as a plain module.
- `FlatModel` (`flat.py`): any module as a function of one flat vector.
- `Gradients` (`gradients.py`): the losses and gradients of all nodes at once. `StackedNetwork`
  (`stacked.py`) does it layer by layer with a leading node axis, with Triton kernels on a GPU
  (`kernels.py`, `norm_kernels.py`); `StackedGPT` (`stacked_gpt.py`) is the transformer's form, and
  `linear_cross_entropy.py` its loss over a large vocabulary (`vocabulary_kernels.py`,
  `loss_kernels.py`). In bf16 on a GPU its backward pass is written by hand (`gpt_gradients.py`,
  `attention.py`, and between products `transformer_kernels.py`, which `transformer_steps.py` says
  in operations of torch).
- `layers.py`: what a forward pass costs.

Everything here needs torch: `pip install 'basegraph[train]'`.

>>> from basegraph.models import FlatModel, build
>>> model = FlatModel(build("lenet", shape=(1, 28, 28), classes=10, seed=0))
>>> model.size
44470
>>> model.initial().shape
torch.Size([44470])
"""

from typing import TYPE_CHECKING

from basegraph.extras import require
from basegraph.lazy import lazy_names

require("torch")

if TYPE_CHECKING:
    from basegraph.models.flat import FlatModel
    from basegraph.models.gpt import GPT
    from basegraph.models.gradients import Gradients
    from basegraph.models.networks import MODELS, build
    from basegraph.models.stacked import StackedNetwork
    from basegraph.models.stacked_gpt import StackedGPT
else:
    _HOMES = {
        "FlatModel": "basegraph.models.flat",
        "GPT": "basegraph.models.gpt",
        "Gradients": "basegraph.models.gradients",
        "MODELS": "basegraph.models.networks",
        "build": "basegraph.models.networks",
        "StackedNetwork": "basegraph.models.stacked",
        "StackedGPT": "basegraph.models.stacked_gpt",
    }
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = ["GPT", "MODELS", "FlatModel", "Gradients", "StackedGPT", "StackedNetwork", "build"]
