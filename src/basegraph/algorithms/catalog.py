"""The catalogue: every algorithm by name, the one registry.

To add a method, write its factory in a file of its own and add one line to `_FACTORIES`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace

from basegraph.algorithms.adamw import adamw, allreduce_adamw
from basegraph.algorithms.allreduce import allreduce_sgd
from basegraph.algorithms.d2 import d2, d2_published
from basegraph.algorithms.decentlam import decentlam
from basegraph.algorithms.dsgd import dsgd
from basegraph.algorithms.dsgd_ceca import dsgd_ceca, dsgdm_ceca
from basegraph.algorithms.dsgdm import dsgdm
from basegraph.algorithms.exact_diffusion import exact_diffusion
from basegraph.algorithms.gradient_tracking import gradient_tracking
from basegraph.algorithms.method import Method
from basegraph.algorithms.momentum_tracking import momentum_tracking
from basegraph.algorithms.qg_dsgdm import qg_dsgdm, qg_dsgdm_published
from basegraph.algorithms.sgp import sgp
from basegraph.errors import InvalidArgument
from basegraph.specs import Entry, catalog, parse, refuse_twice, spec_of, split_specs

_FACTORIES: dict[str, Callable[..., Method]] = {
    "dsgd": dsgd,
    "dsgdm": dsgdm,
    "qg-dsgdm": qg_dsgdm,
    "qg-dsgdm-published": qg_dsgdm_published,
    "d2": d2,
    "d2-published": d2_published,
    "gradient-tracking": gradient_tracking,
    "momentum-tracking": momentum_tracking,
    "exact-diffusion": exact_diffusion,
    "decentlam": decentlam,
    "sgp": sgp,
    "adamw": adamw,
    "allreduce-sgd": allreduce_sgd,
    "allreduce-adamw": allreduce_adamw,
    "dsgd-ceca": dsgd_ceca,
    "dsgdm-ceca": dsgdm_ceca,
}


def _with_spec(name: str, factory: Callable[..., Method]) -> Callable[..., Method]:
    """The factory, whose methods say by which spec the catalogue gives them."""

    @functools.wraps(factory)
    def build(**options: object) -> Method:
        bound = inspect.signature(factory).bind(**options)
        bound.apply_defaults()
        return replace(factory(**options), spec=spec_of(name, bound.arguments))

    return build


ALGORITHMS: Mapping[str, Entry[Method]] = catalog(
    {name: _with_spec(name, factory) for name, factory in _FACTORIES.items()}, typed=True
)
"""name -> factory: call it with the method's options."""


def algorithm(spec: str, **options: object) -> Method:
    """The method that a spec names: a catalogue name, with options behind a colon if wanted.

    Args:
        spec: `name` or `name:option=value,...`.
        **options: Options of the method, where the spec does not give them.

    Returns:
        The method with its options bound.

    Raises:
        InvalidArgument: If there is no such method or option, or a value is not accepted.

    Example:
        >>> algorithm("dsgdm", momentum=0.5).name
        'dsgdm'
        >>> algorithm("d2:damping=0.5").spec
        'd2:damping=0.5'

    """
    name, written = parse_algorithm(spec)
    refuse_twice(spec, written, options)
    return ALGORITHMS[name](**written, **options)


def parse_algorithm(spec: str) -> tuple[str, dict[str, object]]:
    """A spec as (catalogue name, options); unknown names and options are refused.

    Args:
        spec: `name` or `name:option=value,...`.

    Raises:
        InvalidArgument: If the name or an option is not known, or the options are malformed.

    Example:
        >>> parse_algorithm("dsgdm:momentum=0.5,nesterov=true")
        ('dsgdm', {'momentum': 0.5, 'nesterov': True})

    """
    return parse("algorithm", spec, ALGORITHMS)


def parse_algorithms(argument: str, text: str) -> list[str]:
    """Several specs, separated by commas; an option after a comma belongs to the spec before it.

    Args:
        argument: What the caller calls the text; refusals name it.
        text: The specs.

    Raises:
        InvalidArgument: If there is no spec, or one is malformed or not known.

    Example:
        >>> parse_algorithms("methods", "dsgd,dsgdm:momentum=0.5,nesterov=true")
        ['dsgd', 'dsgdm:momentum=0.5,nesterov=true']

    """
    specs = split_specs(text)
    if not specs:
        raise InvalidArgument(argument, text, "must name at least one algorithm")
    for spec in specs:
        parse(argument, spec, ALGORITHMS)
    return specs
