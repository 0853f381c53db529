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
        """Make the method, after refusing options that it does not have or take."""
        for option, value in options.items():
            if option not in self.options:
                raise unknown(f"option of {self.name}", option, self.options)
            _check(option, value)
        return self.make(**options)


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


def algorithm(name: str, **options: object) -> Method:
    """The method of this name.

    >>> algorithm("dsgdm", momentum=0.5).name
    'dsgdm'
    """
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name](**options)


def _check(option: str, value: object) -> None:
    if option == "nesterov":
        if not isinstance(value, bool):
            raise InvalidArgument(option, value, "must be True or False")
        return
    low_open = option == "damping"
    accepted = "must be a number in (0, 1]" if low_open else "must be a number in [0, 1)"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(option, value, accepted)
    if not (0 < value <= 1 if low_open else 0 <= value < 1):
        raise InvalidArgument(option, value, accepted)
