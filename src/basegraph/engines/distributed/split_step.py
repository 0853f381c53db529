"""A method's step around one exchange with the neighbors, block by block.

A method works on every parameter by itself, and what it mixes does not depend on what it has mixed
before in the same step. So the step can be walked through twice: first to learn what is to be
sent, then, with the neighbors' answers, to move. Everything that is sent goes into one message.
Both walks go over blocks that fit the cache, and compute what is wanted where it is wanted.

Shape legend: x_d and the parts of a state (d,) of one node; outbox everything to be sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from basegraph.algorithms.method import Method, Mix, PairMix, identity
from basegraph.engines.distributed.blocks import Block
from basegraph.engines.distributed.deferred import Deferred, deferred
from basegraph.engines.distributed.memory import empty_like
from basegraph.topologies.two_states.exchange import PairRule

Exchange = Callable[[Tensor, Tensor], Tensor]
"""outbox, where to put it -> the same, mixed; the two may be one."""


class SplitStep:
    """Makes steps of a method; keeps the buffer of what is sent from step to step.

    Blocks may have the method with other options than `method`, of which only what no option
    changes is asked here: how many vectors are sent, and when.
    """

    def __init__(self, method: Method) -> None:
        self.method = method
        self._outbox: Tensor | None = None
        self._next: Any = None

    @torch.no_grad()
    def __call__(
        self,
        x_d: Tensor,
        state: Any,
        blocks: list[Block],
        exchange: Exchange | None,
        rule: PairRule | None = None,
    ) -> Any:
        """Move x_d in place; returns the new state, whose vectors are the old one's, overwritten.

        Without an exchange no node talks. If the exchange fails, nothing has moved. With two
        vectors per node the exchange gives what was heard, and `rule` says what becomes of the
        vectors.
        """
        if exchange is None:
            return self._move(x_d, state, blocks, lambda block: None)
        if self.method.ends_with_mix:
            return self._once(x_d, state, blocks, exchange)
        outbox, places = self._collect(x_d, state, blocks)
        mixed = exchange(outbox, outbox)

        def answers(block: Block) -> Callable[..., Any]:
            waiting = iter(places[block.where.start])
            if rule is not None:
                return lambda v, w: rule(v, w, Deferred.of(mixed[next(waiting)]))
            return lambda v: Deferred.of(mixed[next(waiting)])

        return self._move(x_d, state, blocks, answers)

    def _once(self, x_d: Tensor, state: Any, blocks: list[Block], exchange: Exchange) -> Any:
        """One walk is enough where the exchange comes last: the new state waits beside the old."""
        if self._outbox is None:
            self._outbox = empty_like(x_d)
            self._next = type(state)(*(empty_like(part) for part in state))
        outbox, new = self._outbox, self._next

        for block in blocks:
            half, moved = self._step(x_d, state, block, identity)
            for whole, fresh in zip(new, moved, strict=True):  # first: x may be made from these
                fresh.into(whole[block.where] if len(whole) == len(x_d) else whole)
            half.into(outbox[block.where])
        exchange(outbox, x_d)
        self._next = state
        return new

    def _collect(
        self, x_d: Tensor, state: Any, blocks: list[Block]
    ) -> tuple[Tensor, dict[int, list[slice]]]:
        """What is to be sent, and where in it each block's vectors are."""
        size = len(x_d)
        sections = max(self.method.messages, 1)
        if self._outbox is None:
            self._outbox = empty_like(x_d, size=sections * size + EXTRA)
        outbox, places = self._outbox, {}
        used = sections * size
        for block in blocks:
            requests: list[slice] = []

            def ask(
                v: Deferred, block: Block = block, requests: list[slice] = requests
            ) -> Deferred:
                nonlocal used
                width = block.where.stop - block.where.start
                if v.numel() == width and len(requests) < sections:
                    first = len(requests) * size + block.where.start
                    place = slice(first, first + width)
                else:  # one number for the whole node, the same in every block
                    place = slice(sections * size, sections * size + v.numel())
                    used = max(used, place.stop)
                v.into(outbox[place])
                requests.append(place)
                return v

            def ask_one_of_two(
                v: Deferred, w: Deferred, ask: Callable[[Deferred], Deferred] = ask
            ) -> tuple[Deferred, Deferred]:
                return ask(v), w

            self._step(x_d, state, block, ask if self.method.vectors == 1 else ask_one_of_two)
            places[block.where.start] = requests
        return outbox[:used], places

    def _move(
        self,
        x_d: Tensor,
        state: Any,
        blocks: list[Block],
        mix: Callable[[Block], Mix | PairMix | None],
    ) -> Any:
        """Make the step of every block; without a mix, no node communicates."""
        size = len(x_d)
        shared: dict[str, Tensor] = {}
        for block in blocks:
            block_mix = mix(block)
            still = self.method.slow if block_mix is None else ()
            new_x, new = self._step(x_d, state, block, block_mix)
            moved = [fresh.value() for fresh in new]
            here = x_d[block.where]
            # Everything is computed before anything is overwritten, x in place unless it is kept.
            keeps_x = any(fresh.data_ptr() == here.data_ptr() for fresh in moved)
            x = new_x.value() if keeps_x else new_x.into(here)
            for name, fresh in zip(state._fields, moved, strict=True):
                if name in still:
                    continue
                whole = getattr(state, name)
                if len(whole) == size:
                    whole[block.where] = fresh
                else:
                    shared[name] = fresh.clone()
            if x is not here:
                here.copy_(x)
        for name, fresh in shared.items():
            getattr(state, name).copy_(fresh)
        return state

    def _step(
        self,
        x_d: Tensor,
        state: Any,
        block: Block,
        mix: Mix | PairMix | None,
    ) -> tuple[Deferred, Any]:
        size, where = len(x_d), block.where
        part = type(state)(*(s[where] if len(s) == size else s for s in state))
        x, grad = Deferred.of(x_d[where]), Deferred.of(block.grad)
        return block.method.move(x, grad, deferred(part), block.lr, mix, block.decay)


EXTRA = 16
"""Numbers of a node, besides its vectors, that a method may mix (push-sum's mass is one)."""
