"""What a decentralized optimization method is: two pure functions over flat vectors and a mix.

`init(x) -> state` and `step(x, grad, state, lr, mix) -> (x, state)`. The code is elementwise and
does not care whether a node axis stands in front: x is (n, d) with all nodes in one process, (d,)
with one node per process. `mix` is the current round; states are NamedTuples of arrays, owned by
the caller. A learning rate may change from step to step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from basegraph.errors import InvalidArgument
from basegraph.topologies.two_states.sequence import TWO_VECTORS, AnyTopology, TwoStateSequence

Array = Any
"""A torch tensor or a numpy array: only operators both have are used."""
Mix = Callable[[Array], Array]
PairMix = Callable[[Array, Array], tuple[Array, Array]]
"""The round of a topology with two vectors per node: (the one it sends, the other) -> both."""
State = Any
"""A NamedTuple of arrays."""
Init = Callable[[Array], State]
Step = Callable[..., tuple[Array, State]]
"""step(x, grad, state, lr, mix) with a `Mix`, or a `PairMix` of two vectors; with
`Method.decoupled_decay`, weight decay λ comes last."""


class Stateless(NamedTuple):
    """The state of a method that remembers nothing."""


def identity(v: Array) -> Array:
    """The mix of a step at which no node communicates."""
    return v


def both(v: Array, w: Array) -> tuple[Array, Array]:
    """The mix of two vectors at a step at which no node communicates."""
    return v, w


def at_x(x: Array, state: State) -> Array:
    """The gradient is taken at x itself."""
    return x


@dataclass(frozen=True)
class Method:
    """A method with its options bound. A catalogue entry (`ALGORITHMS`) makes one."""

    name: str
    init: Init
    step: Step
    messages: int = 1
    """Vectors of the model's size that a node sends to each neighbor in one round."""
    gradient_point: Callable[[Array, State], Array] = at_x
    """Where the gradient of this step is taken, and what is evaluated."""
    vectors: int = 1
    """Vectors of a node that a round mixes: 2 for two-state topologies, whose `mix` takes both.
    The second is the first part of the state."""
    centralized: bool = False
    """Whether `mix` must be the exact average (all-reduce) instead of the topology's round."""
    ends_with_mix: bool = False
    """Whether x⁺ is what `mix` returns, and nothing else depends on it."""
    either_order: bool = False
    """Whether the step is x ← mix(x - ηd), nothing else is mixed, and d depends on x through the
    gradient only: x ← mix(x) - ηd is then the same method with the exchange first."""
    linear: bool = True
    """Whether a step without gradients is linear in (x, state), which stability is about."""
    decoupled_decay: bool = False
    """Whether `step` takes weight decay by itself (AdamW) instead of as a part of the gradient."""
    local_step: Step | None = None
    """The step at which no node communicates; if None, `step` with `no_mix` as its mix."""
    slow: tuple[str, ...] = ()
    """The fields of the state that `local_step` leaves as they are."""
    outer: Method | None = None
    """The method of the steps that communicate, where local steps are another's."""
    restart: Init | None = None
    """The state of a run that begins again from trained models, where that is not `init`."""
    keeps_state: bool = False
    """Whether the state stays valid when nodes join and leave. Where it is tied to the other nodes'
    states (trackers that sum to zero over all nodes, say), all nodes begin theirs anew."""
    mixing_options: tuple[str, ...] = ()
    """Its options, as in a spec, that say how it mixes: refused where it would not mix at all."""
    spec: str = ""
    """How the catalogue is asked for it, all options included; empty for a method of one's own."""

    def state(self, x: Array, step: int) -> State:
        """A fresh state for a run that begins at x, after so many steps made before."""
        return (self.restart or self.init)(x) if step else self.init(x)

    def move(
        self,
        x: Array,
        grad: Array,
        state: State,
        lr: Any,
        mix: Mix | PairMix | None,
        decay: Any = 0.0,
    ) -> tuple[Array, State]:
        """One step as engines make it: with or without communication, and with weight decay.

        Args:
            x: The parameters.
            grad: The gradient, without weight decay.
            state: The method's state.
            lr: The learning rate η.
            mix: The round; None at a step at which no node communicates.
            decay: λ, one number or one per parameter. λx is added to the gradient, or taken by
                the method itself where it is decoupled.

        Returns:
            The next x and state.

        """
        step = self.step if mix is not None or self.local_step is None else self.local_step
        if mix is None:  # not `or`: compilers ask what a lambda's truth is
            mix = no_mix(self)
        if self.decoupled_decay:
            return step(x, grad, state, lr, mix, decay)
        if not isinstance(decay, float) or decay:
            grad = grad + decay * self.gradient_point(x, state)
        return step(x, grad, state, lr, mix)


def no_mix(method: Method) -> Mix | PairMix:
    """The mix of a step at which no node communicates.

    Args:
        method: Whose step it is.

    """
    return both if method.vectors == 2 else identity


def require_same_vectors(method: Method, topology: AnyTopology) -> None:
    """Refuse a method whose nodes keep another number of vectors than the topology's.

    Args:
        method: The method.
        topology: Which nodes talk when.

    Raises:
        InvalidArgument: If they do not go together; names what does.

    """
    two = isinstance(topology, TwoStateSequence)
    if two and method.vectors == 1:
        raise InvalidArgument(
            "topology",
            topology.spec,
            f"keeps {TWO_VECTORS}: {method.name} needs a topology with one, such as short:k=1; "
            f"dsgd-ceca and dsgdm-ceca train on {topology.name}",
        )
    if not two and method.vectors == 2:
        raise InvalidArgument(
            "algorithm",
            method.name,
            f"keeps {TWO_VECTORS}: it needs the topology ceca instead of {topology.spec}",
        )


def damped(mix: Mix, share: float) -> Mix:
    """The lazy round (1-τ) I + τ W with τ = `share`.

    Args:
        mix: The round.
        share: τ, between 0 and 1.

    """
    return lambda v: v + share * (mix(v) - v)
