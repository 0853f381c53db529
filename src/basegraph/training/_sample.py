"""Text from the averaged model of a run, token by token."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from basegraph.algorithms.method import Method
from basegraph.data.catalog import located
from basegraph.data.dataset import OWN
from basegraph.data.philox import FEW_NUMBERS, raw_words
from basegraph.data.tokenizer import ByteTokenizer, FileTokenizer, Tokenizer, decoded_after
from basegraph.engines.device import pick_device
from basegraph.errors import InvalidArgument
from basegraph.models.networks import build, context_of
from basegraph.storage.inputs import read_json_table
from basegraph.topologies.core.integers import at_least
from basegraph.training._export import export
from basegraph.training.config import RunConfig
from basegraph.training.config_files import read_saved

_STREAM = 8
"""Of the seed: what the tokens are drawn from."""
_PROMPTS = ("\n", " ", "The")
"""What a text begins with where nothing is asked for: the first that has tokens."""


class Sampled(NamedTuple):
    """A text that a model has written."""

    prompt: str
    text: str
    """What comes after the prompt."""
    tokens: list[int]
    """The same as tokens."""


def sample(
    run: Path | str,
    *,
    prompt: str | None = None,
    tokens: int = 200,
    temperature: float = 0.8,
    seed: int = 0,
    node: int | None = None,
    module: nn.Module | None = None,
    context: int | None = None,
    algorithm: Method | None = None,
) -> Sampled:
    """Let the model of a run on text write: a pure function of the arguments and the checkpoint.

    Args:
        run: The run's folder; its last checkpoint is read.
        prompt: What the text begins with; None: a new line, or what the tokenizer has a token for.
        tokens: How many tokens to write.
        temperature: What logits are divided by: 0 always takes the likeliest token, 1 draws tokens
            as the model predicts them.
        seed: What the tokens are drawn from.
        node: Whose model; None: the average of all nodes' models.
        module: The module, where the run was trained with one that was passed from Python: it maps
            tokens (b, t) to logits (b, t, v).
        context: The most tokens that the module reads at once; None: as many as the windows have
            that it was trained on.
        algorithm: The method, where the run was trained with one that was passed from Python.

    Returns:
        The prompt and what comes after it.

    Raises:
        InvalidArgument: There is no such run or node, it was not trained on text, the prompt has no
            tokens, the tokenizer is another one now, or the module is missing.
        CheckpointError: The run has no checkpoint.

    Example:
        >>> import tempfile
        >>> import basegraph as bg
        >>> config = bg.RunConfig(nodes=8, dataset="text", model="gpt-tiny", epochs=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = bg.train(config, f"{folder}/run")
        ...     written = bg.sample(f"{folder}/run", prompt="To be", tokens=7)
        >>> written.prompt, len(written.tokens)
        ('To be', 7)

    """
    tokens = at_least(1, below=2**31, tokens=tokens)
    seed = at_least(0, below=2**64, seed=seed)
    number = isinstance(temperature, Real) and not isinstance(temperature, bool)
    if not number or not 0 <= temperature < math.inf:
        raise InvalidArgument("temperature", temperature, "must be a number ≥ 0")
    if module is not None and not isinstance(module, nn.Module):
        raise InvalidArgument("module", module, "must be a torch.nn.Module")
    if context is not None:
        at_least(1, context=context)
    parameters = export(run, node=node, algorithm=algorithm)
    config = RunConfig(**read_saved(Path(run) / "config.toml"))
    measured = _measured(Path(run))
    tokenizer = _tokenizer(Path(run), config, measured)
    begins, given = _first_tokens(prompt, tokenizer)
    model = module or _built(config, tokenizer.vocabulary).to(pick_device("auto"))
    _load(model, parameters)
    most = getattr(model, "context", None)
    if context is not None and isinstance(most, int) and context > most:
        raise InvalidArgument("context", context, f"must be at most the model's, {most}")
    size = context or measured.get("context") or most
    written = generate(model, given, tokens, size, temperature, seed, tokenizer.vocabulary)
    return Sampled(begins, decoded_after(tokenizer, given, written), written)


@torch.no_grad()
def generate(
    module: nn.Module,
    given: list[int],
    count: int,
    context: int | None,
    temperature: float,
    seed: int,
    vocabulary: int | None = None,
) -> list[int]:
    """The tokens that a module writes after those that are given.

    Args:
        module: Tokens (b, t) -> logits (b, t, v).
        given: At least one token.
        count: How many tokens to write.
        context: The most tokens that the module reads at once; None: all.
        temperature: Of the draws; 0: the likeliest token.
        seed: What is drawn from: a number for every token.
        vocabulary: All tokens are below this, though the module may know more; None: as it does.

    """
    tokens, device = list(given), next(module.parameters()).device
    for word in _draws(seed, count):
        window = tokens[-context:] if context else tokens
        last: Tensor = module(torch.tensor([window], device=device))[0, -1]
        logits = last[:vocabulary].double().cpu()
        if not temperature:
            tokens.append(int(logits.argmax()))
            continue
        shares = torch.softmax((logits - logits.max()) / temperature, dim=0).cumsum(dim=0)
        place = torch.tensor((word >> 11) / 2**53, dtype=shares.dtype) * shares[-1]
        drawn = int(torch.searchsorted(shares, place, right=True))
        tokens.append(min(drawn, len(shares) - 1))
    return tokens[len(given) :]


def _draws(seed: int, count: int) -> Iterator[int]:
    """A random number of 64 bits for every token, drawn for some tokens at a time."""
    for first in range(0, count, FEW_NUMBERS):
        some = min(FEW_NUMBERS, count - first)
        blocks = first // 4  # of the generator, each of four numbers
        yield from raw_words(seed, np.array([_STREAM]), np.array([0]), some, blocks)[0].tolist()


def _measured(run: Path) -> dict[str, Any]:
    """What the run's record says of its data, as far as it says it."""
    measured = read_json_table(run / "provenance.json").get("measured")
    known = measured if isinstance(measured, dict) else {}
    kinds = {"tokenizer": str, "context": int, "domains": int}
    return {name: known[name] for name, kind in kinds.items() if isinstance(known.get(name), kind)}


def _tokenizer(run: Path, config: RunConfig, measured: dict[str, Any]) -> Tokenizer:
    """The one of a run on text, refused if its file has changed since."""
    named = config.dataset == "text" or config.dataset.startswith("text:")
    if not named and "domains" not in measured:  # which a text under a name of its own has
        raise InvalidArgument(
            "run", str(run), f"was trained on {config.dataset}, which is not text"
        )
    if not config.tokenizer:
        return ByteTokenizer()
    path = located(config.tokenizer, Path(config.data_dir) if config.data_dir else None)
    if path is None:
        raise InvalidArgument(
            "run", str(run), f"was trained with the tokenizer {config.tokenizer}, which is not here"
        )
    tokenizer = FileTokenizer(path)
    if measured.get("tokenizer", tokenizer.checksum) != tokenizer.checksum:
        raise InvalidArgument("run", str(run), f"was trained with another {config.tokenizer}")
    return tokenizer


def _first_tokens(prompt: str | None, tokenizer: Tokenizer) -> tuple[str, list[int]]:
    """What the text begins with, as it can be printed, and its tokens."""
    if not isinstance(prompt, str | None):
        raise InvalidArgument("prompt", prompt, "must be text")
    for text in _PROMPTS if prompt is None else (prompt,):
        try:
            content = text.encode("utf-8", "surrogateescape")  # a byte of a command line that is
        except UnicodeEncodeError:  # no UTF-8 is half a surrogate pair; there are other halves
            raise InvalidArgument("prompt", text, "must be text") from None
        given = tokenizer.encode(np.frombuffer(content, np.uint8), "the prompt").tokens.tolist()
        if given:
            return content.decode("utf-8", "replace"), given
    raise InvalidArgument(
        "prompt", prompt, "must not be empty: the first generated token needs one before it"
    )


def _load(module: nn.Module, parameters: dict[str, Tensor]) -> None:
    """Give a module these parameters; tied ones have their first name."""
    names = {name for name, _ in module.named_parameters()}
    try:
        module.load_state_dict(parameters, strict=False)
    except RuntimeError:
        names = set()
    if names != parameters.keys():
        raise InvalidArgument("module", type(module).__name__, "is not the model of the run")


def _built(config: RunConfig, vocabulary: int) -> nn.Module:
    """The module that the configuration names."""
    if config.model.startswith(OWN):
        raise InvalidArgument(
            "model", config.model, "was passed from Python: bg.sample needs it as module="
        )
    return build(config.model, (context_of(config.model) or 1,), None, config.seed, vocabulary)
