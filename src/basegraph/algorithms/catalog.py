"""The catalogue: every algorithm by name, the one registry.

To add a method, write its factory in a file of its own and add one line to `_FACTORIES`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from basegraph.algorithms.allreduce import allreduce_sgd
from basegraph.algorithms.d2 import d2, d2_published
from basegraph.algorithms.decentlam import decentlam
from basegraph.algorithms.dsgd import dsgd
from basegraph.algorithms.dsgdm import dsgdm
from basegraph.algorithms.exact_diffusion import exact_diffusion
from basegraph.algorithms.gradient_tracking import gradient_tracking
from basegraph.algorithms.method import Method
from basegraph.algorithms.momentum_tracking import momentum_tracking
from basegraph.algorithms.qg_dsgdm import qg_dsgdm
from basegraph.algorithms.sgp import sgp
from basegraph.errors import InvalidArgument, unknown
from basegraph.specs import refuse_twice, split_spec, value_of


@dataclass(frozen=True)
class Factory:
    """A catalogue entry: call it with the method's options."""

    name: str
    make: Callable[..., Method]

    @property
    def description(self) -> str:
        """What it is, in one line: the first of the factory's docstring."""
        return (inspect.getdoc(self.make) or "").partition("\n")[0]

    @property
    def options(self) -> Mapping[str, object]:
        """The options it takes, with their defaults."""
        return {p.name: p.default for p in inspect.signature(self.make).parameters.values()}

    def __call__(self, **options: object) -> Method:
        """Make the method, after refusing options that it does not have or of another type.

        Which values are accepted is the factory's own business.
        """
        for option, value in options.items():
            self.require_option(option)
            kind = type(self.options[option])
            if not _is_a(kind, value):
                raise InvalidArgument(option, value, _ACCEPTED[kind])
        return self.make(**options)

    def require_option(self, option: str) -> None:
        """Refuse an option that the method does not have."""
        if option not in self.options:
            raise unknown(f"option of {self.name}", option, self.options)


_ACCEPTED = {bool: "must be True or False", int: "must be an integer", float: "must be a number"}


def _is_a(kind: type, value: object) -> bool:
    """Whether a value may stand for a default of this type: an integer may for a number."""
    if kind not in _ACCEPTED or isinstance(value, bool):
        return kind not in _ACCEPTED or kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


_FACTORIES: dict[str, Callable[..., Method]] = {
    "dsgd": dsgd,
    "dsgdm": dsgdm,
    "qg-dsgdm": qg_dsgdm,
    "d2": d2,
    "d2-published": d2_published,
    "gradient-tracking": gradient_tracking,
    "momentum-tracking": momentum_tracking,
    "exact-diffusion": exact_diffusion,
    "decentlam": decentlam,
    "sgp": sgp,
    "allreduce-sgd": allreduce_sgd,
}
ALGORITHMS: Mapping[str, Factory] = MappingProxyType(
    {name: Factory(name, make) for name, make in _FACTORIES.items()}
)
"""name -> factory."""


def algorithm(spec: str, **options: object) -> Method:
    """The method that a spec names: a catalogue name, with options behind a colon if wanted.

    >>> algorithm("dsgdm", momentum=0.5).name
    'dsgdm'
    >>> algorithm("d2:damping=0.5").name
    'd2'
    """
    name, written = parse_algorithm(spec)
    refuse_twice(spec, written, options)
    return ALGORITHMS[name](**written, **options)


def parse_algorithm(spec: str) -> tuple[str, dict[str, object]]:
    """A spec as (catalogue name, options); unknown names and options are refused.

    >>> parse_algorithm("dsgdm:momentum=0.5,nesterov=true")
    ('dsgdm', {'momentum': 0.5, 'nesterov': True})
    """
    name, written = split_spec("algorithm", spec, ALGORITHMS)
    for option in written:
        ALGORITHMS[name].require_option(option)
    defaults = ALGORITHMS[name].options
    return name, {option: _value(text, defaults[option]) for option, text in written.items()}


def _value(text: str, default: object) -> object:
    """An option's value as written; 7 is 7.0 where the option is a number."""
    if isinstance(default, float):
        try:
            return float(text)
        except ValueError:
            return text
    return value_of(text)
