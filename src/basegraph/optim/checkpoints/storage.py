"""The tensors of all nodes in one checkpoint, by `torch.distributed.checkpoint`.

They are in safetensors, so that nothing is unpickled. Every process writes a file with its shards,
and reads the parts of any files that its shards need, however many processes there were. torch
finds out which are where from the headers of the files.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.storage import WriteResult

from basegraph.engines.checkpoint import CheckpointError

_GROUPS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""By the group of all processes, the one in which they agree on checkpoints."""


def group_for_checkpoints(timeout: float) -> Any:
    """A process group of all processes, over gloo, for checkpoints alone; all must call it.

    A checkpoint may be written in the background, and must not mix its messages with others.
    """
    everyone = dist.group.WORLD
    if everyone not in _GROUPS:
        _GROUPS[everyone] = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout))
    return _GROUPS[everyone]


class NodesWriter(HuggingFaceStorageWriter):
    """Writes tensors to a folder, and calls a function once all processes have written theirs.

    Args:
        path: The folder.
        processes: How many there are.
        when_complete: Called by one process.

    """

    def __init__(self, path: Path, processes: int, when_complete: Callable[[], object]) -> None:
        super().__init__(str(path), save_distributed=True)
        self._processes = processes
        self._when_complete = when_complete

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Called by torch where all files are on disk, in the first process.

        Raises:
            RuntimeError: Not all processes have written theirs. Where the process group is gone,
                torch takes every process for the only one.

        """
        if len(results) != self._processes:
            raise RuntimeError(f"{len(results)} of {self._processes} processes have written")
        super().finish(metadata, results)
        self._when_complete()


class NodesReader(HuggingFaceStorageReader):
    """Reads tensors of a folder; the headers of its files once."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._read: Metadata | None = None

    def read_metadata(self) -> Metadata:
        """Which tensors there are, and which part of each in which file."""
        if self._read is None:
            self._read = super().read_metadata()
        return self._read


class Stored:
    """The tensors of a checkpoint.

    Args:
        path: Its folder.

    Raises:
        CheckpointError: A file cannot be read.

    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader = NodesReader(path)
        try:
            self._tensors = self._reader.read_metadata().state_dict_metadata
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            raise CheckpointError(f"{path}: is cut short or no checkpoint: {error}") from None

    def __contains__(self, key: str) -> bool:
        return key in self._tensors

    def names(self, prefix: str) -> set[str]:
        """The keys that begin with this, without it."""
        return {key.removeprefix(prefix) for key in self._tensors if key.startswith(prefix)}

    def read(self, tensors: Mapping[str, Tensor]) -> None:
        """Fill tensors, sharded or not, with what is stored under their keys.

        Raises:
            CheckpointError: One is not there, or of another shape.

        """
        for key, tensor in tensors.items():
            stored = self._tensors.get(key)
            if not isinstance(stored, TensorStorageMetadata):
                raise CheckpointError(f"{self.path}: has no tensor {key!r}")
            if stored.size != tensor.shape:
                raise CheckpointError(
                    f"{self.path}: the tensor {key!r} is {tuple(stored.size)}: must be "
                    f"{tuple(tensor.shape)}"
                )
            if sum(chunk.sizes.numel() for chunk in stored.chunks) < stored.size.numel():
                raise CheckpointError(f"{self.path}: a part of the tensor {key!r} is missing")
        with warnings.catch_warnings(), torch.no_grad():
            # Every process reads what it needs by itself, which torch takes for a mistake.
            warnings.filterwarnings("ignore", "torch.distributed is disabled")
            try:
                load(dict(tensors), storage_reader=self._reader, no_dist=True)
            except (SafetensorError, OSError, CheckpointException) as error:
                raise CheckpointError(f"{self.path}: cannot be read: {reason(error)}") from None


def reason(error: BaseException) -> str:
    """Why torch could not write or read, on one line: the first process's reason."""
    failures = error.failures if isinstance(error, CheckpointException) else {}
    reasons = [f"process {rank}: {why}" for rank, (why, _) in failures.items()]
    said = " ".join((reasons or [str(error)])[0].split())
    return said[:300] or type(error).__name__
