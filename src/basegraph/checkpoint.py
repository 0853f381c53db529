"""Checkpoints: tensors in safetensors, everything else as JSON in its header. No pickle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from basegraph.errors import BasegraphError
from basegraph.files import CannotWrite, replacing

FORMAT = 1


class CheckpointError(BasegraphError):
    """A checkpoint that is missing, cut short or of another run."""


def save(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write a checkpoint; the one that was there stays until the new one is whole and on disk."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        try:
            save_file(whole, temporary, {"basegraph": json.dumps({"format": FORMAT, **facts})})
        except SafetensorError as error:  # which hides the system's own error
            raise CannotWrite(f"{path}: cannot be written: {error}") from None


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """(tensors, facts) of a checkpoint."""
    with _opened(path) as (file, found):
        return {name: file.get_tensor(name) for name in file.keys()}, found  # noqa: SIM118


def facts(path: Path) -> dict[str, Any]:
    """The facts of a checkpoint, without its tensors."""
    with _opened(path) as (_, found):
        return found


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no checkpoint to resume from")
    try:
        with safe_open(path, framework="pt") as file:
            found = json.loads((file.metadata() or {})["basegraph"])
            if found.get("format") != FORMAT:
                raise CheckpointError(f"{path}: has format {found.get('format')}, not {FORMAT}")
            yield file, found
    except CheckpointError:
        raise
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise CheckpointError(f"{path}: is cut short or no checkpoint: {error}") from None
