"""The whole step as one CUDA graph: gather, augmentation, gradients, update and mixing.

What changes from step to step (samples, crops, learning rates, the round's peers and weights) lies
in tables of a whole epoch, on the device; the graph reads them at a counter that it moves itself.
So a step is one call, and nothing is copied between steps.

x and the method's state live twice: a step reads one set and writes the other. Nothing is
overwritten that is still read, and trying a step out changes nothing. Each direction is a graph, of
steps that communicate and of those that do not. What only the former change is held once.

Shape legend: tables (steps of an epoch, ...); losses (steps of an epoch, nodes).
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor

from basegraph.models.flat import aligned

Tables = dict[str, Tensor]
Body = Callable[[Tables, Tensor, list[Tensor], list[Tensor]], Tensor]
"""(tables, counter, x and state, x and state to be written) -> losses"""


class CapturedStep:
    """The graphs and the tensors they read and write.

    Args:
        bodies: What a step does, by whether it communicates.
        tables: What an epoch's steps read.
        current: x and the state.
        in_place: Which of them are held once, and changed in place.

    """

    def __init__(
        self,
        bodies: Mapping[bool, Body],
        tables: Tables,
        current: list[Tensor],
        in_place: Sequence[int] = (),
    ) -> None:
        device = current[0].device
        self.tables = {name: table.to(device) for name, table in tables.items()}
        self.counter = torch.zeros(1, dtype=torch.int64, device=device)
        other = [t if i in in_place else aligned(t) for i, t in enumerate(current)]
        self.sets = (current, other)
        self.side = 0
        steps, nodes = len(next(iter(tables.values()))), len(current[0])
        self.losses = torch.zeros(steps, nodes, device=device)
        # A stream of its own: what libraries keep for a stream, as cuBLAS its workspace, is in the
        # memory of the first graph that is captured there, and torch may free it with that graph.
        self._stream = _stream_on(device)
        kinds = [(communicates, side) for communicates in bodies for side in (0, 1)]
        for communicates, side in kinds:  # all before a graph holds memory that they cannot use
            self._try_out(bodies[communicates], self.sets[side], self.sets[1 - side])
        self._graphs = {}
        pool = None
        for communicates, side in kinds:
            graph = self._capture(bodies[communicates], self.sets[side], self.sets[1 - side], pool)
            pool = graph.pool()
            self._graphs[communicates, side] = graph
        self.counter.zero_()

    def _step(self, body: Body, source: list[Tensor], target: list[Tensor]) -> None:
        losses = body(self.tables, self.counter, source, target)
        self.losses.index_copy_(0, self.counter, losses[None])

    def _try_out(self, body: Body, source: list[Tensor], target: list[Tensor]) -> None:
        """Let compilers and libraries choose their kernels; x and the state stay as they are."""
        assert self._stream is not None
        stream, here = self._stream, torch.cuda.current_stream(self._stream.device)
        current = {id(tensor) for tensor in self.sets[0]}
        kept = [(tensor, tensor.clone()) for tensor in target if id(tensor) in current]
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._step(body, source, target)
        here.wait_stream(stream)
        for tensor, value in kept:
            tensor.copy_(value)

    def _capture(
        self, body: Body, source: list[Tensor], target: list[Tensor], pool: Any
    ) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        # Of this thread only: another one may be preparing the next epoch of another engine.
        capture = torch.cuda.graph(graph, pool, self._stream, capture_error_mode="thread_local")
        with nothing_collected(), capture:
            self._step(body, source, target)
            self.counter.add_(1)
        return graph

    def begin(self, tables: Tables, within: int) -> None:
        """Take these tables, and go on at this step of the epoch."""
        for name, table in tables.items():
            self.tables[name].copy_(table, non_blocking=True)
        self.counter.fill_(within)

    def __call__(self, communicates: bool) -> list[Tensor]:
        """Make one step, with a round or without; returns x and the state after it."""
        self._graphs[communicates, self.side].replay()
        self.side = 1 - self.side
        return self.sets[self.side]


def _stream_on(device: torch.device) -> torch.cuda.Stream | None:
    """A stream of a GPU; a CPU has none, and captures nothing."""
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Python collects no garbage meanwhile: the graph of an earlier engine, freed during a capture,
    would make it void.
    """
    collects = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class Compiled:
    """A function compiled by torch; the function itself, and a warning, where that fails."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.works = True
        self._compiled = torch.compile(
            with_own_code(function),
            fullgraph=True,
            dynamic=False,
            options={"max_pointwise_cat_inputs": 32},
        )

    def __call__(self, *arguments: Any) -> Any:
        """What the function returns."""
        if self.works:
            try:
                # A compiler warns of what the user did not ask for (float32 products without TF32,
                # deprecated parts of torch): where warnings are errors, that would end it.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return self._compiled(*arguments)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # a compiler can fail in any way it likes
                warnings.warn(
                    "torch.compile failed, training goes on without it, slower: "
                    f"{reason_of(error)}",
                    RuntimeWarning,
                    stacklevel=2,
                )
                self.works = False
        return self.function(*arguments)


def with_own_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a code object that no other has.

    torch compiles a code object eight times at most, and all engines of a process share theirs.
    """
    if isinstance(function, MethodType):
        return MethodType(with_own_code(function.__func__), function.__self__)
    if not isinstance(function, FunctionType):
        return function
    copy = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def reason_of(error: BaseException) -> str:
    r"""An exception and its causes on one line: their types, and how their messages begin.

    Example:
        >>> reason_of(RuntimeError("\nno compiler here\nand much more"))
        'RuntimeError: no compiler here and much more'
        >>> reason_of(KeyError())
        'KeyError'

    """
    parts = []
    cause: BaseException | None = error
    while cause is not None:
        lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
        parts.append(": ".join([type(cause).__name__, *[" ".join(lines[:3])[:300]][: len(lines)]]))
        cause = cause.__cause__
    return ", caused by ".join(parts)
