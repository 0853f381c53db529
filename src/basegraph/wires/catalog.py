"""Every wire by name; a spec such as `int8`, `int8:block=64` or `topk:0.01` asks for one."""

from __future__ import annotations

import torch

from basegraph.algorithms.catalog import ALGORITHMS
from basegraph.algorithms.method import Method
from basegraph.errors import InvalidArgument, unknown
from basegraph.specs import catalog, parse
from basegraph.topologies.two_states.sequence import AnyTopology, TwoStateSequence
from basegraph.wires.cast import bf16, cast, float16, float32
from basegraph.wires.contract import Wire
from basegraph.wires.eight_bits import fp8, int8
from basegraph.wires.randk import randk
from basegraph.wires.topk import topk

WIRES = catalog(
    {
        "float32": float32,
        "bf16": bf16,
        "float16": float16,
        "int8": int8,
        "fp8": fp8,
        "topk": topk,
        "randk": randk,
    },
    typed=True,
)
"""Name -> wire, with its options and their defaults."""


def wire(spec: str | torch.dtype | Wire) -> Wire:
    """The wire that is asked for.

    Args:
        spec: `name` or `name:option=value,...`; `topk` and `randk` take their fraction without its
            name, too. Or a floating-point type of torch, or a wire.

    Raises:
        InvalidArgument: If there is no such wire or option, or a value is not accepted.

    Example:
        >>> wire("topk:0.01").spec, wire("int8:block=256").spec
        ('topk:fraction=0.01', 'int8')
        >>> wire("int8").message_bytes(1000)
        1016

    """
    if isinstance(spec, Wire):
        return spec
    if isinstance(spec, torch.dtype) and spec.is_floating_point and spec.itemsize > 1:
        return cast(spec)
    if not isinstance(spec, str):
        raise InvalidArgument(
            "wire", spec, f"must be a floating-point type, as torch.bfloat16, or {_NAMES}"
        )
    name, colon, options = spec.partition(":")
    if name not in WIRES:
        raise unknown("wire", name, WIRES)
    first = next(iter(WIRES[name].options), None)
    if first == "fraction" and colon and "=" not in options.partition(",")[0]:
        options = f"fraction={options}"
    name, chosen = parse("wire", f"{name}{colon}{options}", WIRES)
    return WIRES[name](**chosen)


_NAMES = f"one of {', '.join(WIRES)}"


def require_wire(wire: Wire, topology: AnyTopology, method: Method | None = None) -> None:
    """Refuse a wire that does not go with a method or a topology.

    Args:
        wire: The wire.
        topology: Who talks to whom.
        method: What is mixed; None for the model itself.

    Raises:
        InvalidArgument: If it does not; says what does.

    """
    if not wire.compresses:
        return
    if method is not None:
        require_model_alone(wire, method)
    if isinstance(topology, TwoStateSequence):
        raise InvalidArgument("wire", wire.spec, f"is for one vector per node, not {topology.spec}")
    if wire.links and (topology.period is None or not topology.symmetric):
        other = "random" if topology.period is None else "directed"
        raise InvalidArgument(
            "wire",
            wire.spec,
            f"keeps what both ends of a link know, which the {other} rounds of {topology.spec} do "
            f"not allow; int8 and randk are for all topologies",
        )


def require_model_alone(wire: Wire, method: Method) -> None:
    """Refuse a wire for a method of which a round mixes more than the model.

    Args:
        wire: The wire.
        method: What is mixed.

    Raises:
        InvalidArgument: If it mixes more, or its state relies on an exact mix; says what does not.

    """
    if not mixes_model_alone(method):
        options = (method.outer or method).mixing_options
        name = f"{method.name}:{','.join(options)}" if options else method.name
        raise InvalidArgument("wire", wire.spec, f"is for {_MIX_MODEL_ALONE}, not {name}")


def mixes_model_alone(method: Method) -> bool:
    """Whether a round mixes the model and nothing else, and no state relies on an exact mix."""
    one = method.messages == 1 and method.vectors == 1 and not method.centralized
    return one and method.keeps_state


_MIX_MODEL_ALONE = "methods that mix the model alone ({})".format(
    ", ".join(name for name, entry in ALGORITHMS.items() if mixes_model_alone(entry()))
)
