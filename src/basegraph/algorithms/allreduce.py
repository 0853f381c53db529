"""All-reduce SGD: the centralized reference."""

from __future__ import annotations

from basegraph.algorithms.dsgdm import Momentum
from basegraph.algorithms.method import Array, Method, Mix
from basegraph.algorithms.options import below_one


def allreduce_sgd(momentum: float = 0.9, nesterov: bool = False) -> Method:
    """SGD with momentum on the average gradient: g ← mean(g); u ← βu + g; x ← x - ηu.

    All nodes hold the same model. `mix` is the exact average here, whatever the topology. With
    Nesterov, x ← x - η(βu + g).

    Args:
        momentum: β in [0, 1).
        nesterov: Whether to step along βu + g instead of u.

    Raises:
        InvalidArgument: If the momentum is not in [0, 1).

    """
    below_one(momentum=momentum)

    def step(x: Array, grad: Array, state: Momentum, lr: float, mix: Mix) -> tuple[Array, Momentum]:
        average = mix(grad)
        u = momentum * state.momentum + average
        direction = momentum * u + average if nesterov else u
        return x - lr * direction, Momentum(u)

    return Method(
        "allreduce-sgd", lambda x: Momentum(0 * x), step, centralized=True, keeps_state=True
    )
