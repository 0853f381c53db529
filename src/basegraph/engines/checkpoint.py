"""Checkpoints: tensors in safetensors, everything else ("facts") as JSON in its header. No pickle.

What a file holds is checked when it is read: the facts against a schema, the tensors by shape and
type. Errors name the file and the field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from basegraph.engines.finite import finite
from basegraph.errors import BasegraphError, short
from basegraph.storage.files import CannotWrite, replacing
from basegraph.storage.inputs import MAX_TEXT_BYTES, parse_json

FORMAT = 1


class CheckpointError(BasegraphError):
    """A checkpoint that is missing, cut short, of another run, or holds what it should not."""


class Field(NamedTuple):
    """What a fact must be."""

    accepted: str
    test: Callable[[Any], bool]
    required: bool = True


class Checkpoint(NamedTuple):
    """What a checkpoint holds."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]


Schema = Mapping[str, Field]
"""The facts of one kind of checkpoint; `config.nodes` is the field `nodes` of table `config`."""

TEXT = Field("text", lambda value: isinstance(value, str))
TABLE = Field(
    "a table of numbers and texts",
    lambda value: (
        isinstance(value, dict) and all(isinstance(v, str | int | float) for v in value.values())
    ),
)


def integer(low: int, *, required: bool = True) -> Field:
    """An integer that is not below this."""
    accepted = f"an integer ≥ {low}"
    return Field(accepted, lambda v: type(v) is int and low <= v < 2**63, required)


def number(low: float = -1e300, *, required: bool = True) -> Field:
    """A finite number that is not below this."""
    accepted = "a finite number" if low < 0 else f"a finite number ≥ {low:g}"
    return Field(accepted, lambda v: type(v) in (int, float) and low <= v < 1e300, required)


def save(
    path: Path,
    tensors: dict[str, Tensor],
    facts: dict[str, Any],
    confirm: Callable[[], None] = lambda: None,
) -> None:
    """Write a checkpoint; an earlier one stays until the new one is whole and on disk.

    Args:
        path: The file.
        tensors: What it holds, by name.
        facts: What else it holds: anything that JSON can write.
        confirm: Called when the new one is whole, before it takes the place of the earlier one,
            which stays if this raises.

    Raises:
        CannotWrite: If the disk is full, say; an earlier checkpoint is intact.

    """
    on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        try:
            save_file(on_cpu, temporary, {"basegraph": json.dumps({"format": FORMAT, **facts})})
        except SafetensorError as error:  # which hides the system's own error
            raise CannotWrite(f"{path}: cannot be written: {error}") from None
        confirm()


def load(path: Path, schema: Schema | None = None) -> Checkpoint:
    """Read a checkpoint.

    Args:
        path: The file.
        schema: The facts to return, and what each must be; without one, all of them.

    Raises:
        CheckpointError: If the file is missing, is cut short, or does not keep to the schema.

    """
    with _opened(path, schema) as (file, facts):
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return Checkpoint(tensors, facts)


def header(
    path: Path, schema: Schema | None = None
) -> tuple[dict[str, Any], dict[str, tuple[str, tuple[int, ...]]]]:
    """The facts of a checkpoint, and its tensors' types (as in "F32") and shapes: none is read."""
    with _opened(path, schema) as (file, facts):
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return facts, {n: (s.get_dtype(), tuple(s.get_shape())) for n, s in slices.items()}


def require_tensors(path: Path, tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> None:
    """Refuse a checkpoint whose tensors have not the shapes and types of these, and finite values.

    Args:
        path: The file, for the error.
        tensors: What it holds.
        like: What it must hold; the values do not matter (the device may be "meta").

    Raises:
        CheckpointError: If a tensor is missing, has another shape or type, or is not finite.

    """
    for name, expected in like.items():
        if name not in tensors:
            raise CheckpointError(f"{path}: has no tensor {name!r}")
        tensor = tensors[name]
        if (tensor.shape, tensor.dtype) != (expected.shape, expected.dtype):
            raise CheckpointError(
                f"{path}: the tensor {name!r} is {_kind(tensor)}: must be {_kind(expected)}"
            )
        if not finite(tensor):
            raise CheckpointError(f"{path}: the tensor {name!r} holds values that are not finite")


def _kind(tensor: Tensor) -> str:
    return f"{tensor.dtype} {tuple(tensor.shape)}"


@contextmanager
def _opened(path: Path, schema: Schema | None) -> Iterator[tuple[Any, dict[str, Any]]]:
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no checkpoint to resume from")
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {})["basegraph"]
            if len(text) > MAX_TEXT_BYTES:
                raise CheckpointError(f"{path}: is no checkpoint: {len(text)} bytes of facts")
            yield file, checked(path, parse_json(text), schema)
    except CheckpointError:
        raise
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise CheckpointError(f"{path}: is cut short or no checkpoint: {error}") from None


def checked(path: Path, facts: Any, schema: Schema | None) -> dict[str, Any]:
    """The facts that a schema names, each of which is as it says.

    Args:
        path: The file, for the error.
        facts: What it holds.
        schema: The facts to return, and what each must be; without one, all of them.

    Raises:
        CheckpointError: They do not keep to the schema.

    """
    if not isinstance(facts, dict):
        raise CheckpointError(f"{path}: is no checkpoint: its facts are {short(facts)}")
    if facts.get("format") != FORMAT:
        raise CheckpointError(f"{path}: has format {short(facts.get('format'))}, not {FORMAT}")
    if schema is None:
        return facts
    for name, field in schema.items():
        value: Any = facts
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if value is None:  # JSON's null is never accepted, so that it may stand for nothing
            if field.required:
                raise CheckpointError(f"{path}: has no field {name!r}")
        elif not field.test(value):
            raise CheckpointError(f"{path}: {name}={short(value)}: must be {field.accepted}")
    return {name: facts[name] for name in schema if facts.get(name) is not None}
