"""Specs and catalogue entries: `base:k=2` or `d2:damping=0.5`, and what such a name builds.

A spec is a catalogue name with options behind a colon. A catalogue maps names to entries, of
topologies or of methods: an entry knows its description, its options and their defaults, and
refuses options that it does not have.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from basegraph.errors import InvalidArgument, unknown

Built = TypeVar("Built")

_ACCEPTED = {bool: "must be True or False", int: "must be an integer", float: "must be a number"}


@dataclass(frozen=True)
class Entry(Generic[Built]):
    """A catalogue entry: call it with its options.

    Example:
        >>> def ring(n: int, k: int = 1) -> str:
        ...     '''A ring with k more edges.'''
        ...     return f"ring of {n} with {k}"
        >>> entry = Entry("ring", ring, arguments=("n",))
        >>> entry.description, dict(entry.options), entry(5, k=2)
        ('A ring with k more edges.', {'k': 1}, 'ring of 5 with 2')

    """

    name: str
    build: Callable[..., Built]
    arguments: tuple[str, ...] = ()
    """What the builder is given besides its options. Its keyword-only parameters are its own."""
    typed: bool = False
    """Whether a value must be of the type of the option's default; or the builder checks that."""

    @property
    def description(self) -> str:
        """What it is, in one line: the first of the builder's docstring."""
        return (inspect.getdoc(self.build) or "").partition("\n")[0]

    @property
    def options(self) -> Mapping[str, object]:
        """The options it takes, with their defaults."""
        return {
            parameter.name: parameter.default
            for parameter in inspect.signature(self.build).parameters.values()
            if parameter.name not in self.arguments
            and parameter.kind is not inspect.Parameter.KEYWORD_ONLY
        }

    def __call__(self, *arguments: Any, **options: object) -> Built:
        """Build it, after refusing options that it does not have or of another type.

        Args:
            *arguments: The entry's `arguments`.
            **options: Its options; those left out have their defaults.

        Raises:
            InvalidArgument: If there is no such option, or its value is not accepted.

        """
        for option, value in options.items():
            if option in self.arguments:
                continue
            self.require_option(option)
            kind = type(self.options[option])
            if self.typed and not _is_a(kind, value):
                raise InvalidArgument(option, value, _ACCEPTED[kind])
        return self.build(*arguments, **options)

    def require_option(self, option: str) -> None:
        """Refuse an option that it does not have."""
        if option not in self.options:
            raise unknown(f"option of {self.name}", option, self.options)

    def value(self, option: str, text: str) -> object:
        """An option's value as written in a spec; 7 is 7.0 where the default is a float."""
        if isinstance(self.options.get(option), float):
            try:
                return float(text)
            except ValueError:
                return text
        return value_of(text)


def catalog(
    builders: Mapping[str, Callable[..., Built]],
    *,
    arguments: tuple[str, ...] = (),
    typed: bool = False,
) -> Mapping[str, Entry[Built]]:
    """A read-only catalogue of these builders, name -> entry."""
    return MappingProxyType(
        {name: Entry(name, build, arguments, typed) for name, build in builders.items()}
    )


def parse(
    argument: str,
    spec: str,
    entries: Mapping[str, Entry[Any]],
    common: Collection[str] = (),
) -> tuple[str, dict[str, object]]:
    """A spec as (catalogue name, options).

    Args:
        argument: What the caller calls the spec; refusals name it.
        spec: `name` or `name:option=value,...`.
        entries: The catalogue.
        common: Options that every entry has besides its own.

    Returns:
        The name, and the options that are written with their values.

    Raises:
        InvalidArgument: If the name or an option is not known, or the options are malformed.

    """
    name, written = split_spec(argument, spec, entries)
    entry = entries[name]
    for option in written:
        if option not in common:
            entry.require_option(option)
    return name, {option: entry.value(option, text) for option, text in written.items()}


def split_spec(argument: str, spec: str, known: Collection[str]) -> tuple[str, dict[str, str]]:
    """Split a spec into a name of the catalogue and its options, as written.

    Args:
        argument: What the caller calls the spec; refusals name it.
        spec: `name` or `name:option=value,...`.
        known: The names of the catalogue.

    Raises:
        InvalidArgument: If the name is not known or the options are malformed.

    Example:
        >>> split_spec("topology", "base:k=2,redundant=false", ["base", "ring"])
        ('base', {'k': '2', 'redundant': 'false'})

    """
    name, _, rest = str(spec).partition(":")
    if name not in known:
        raise unknown(argument, name, known)
    options: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        option, equals, value = item.partition("=")
        if not equals:
            raise InvalidArgument(argument, spec, "options are written name:option=value,...")
        if option in options:
            raise InvalidArgument(argument, spec, f"gives {option} twice")
        options[option] = value
    return name, options


def split_specs(text: str) -> list[str]:
    """The specs in a text, separated by commas; an option belongs to the spec before it.

    Spaces around commas do not count. An empty item stays, and is refused as a name.

    Example:
        >>> split_specs("base:k=1, ring, u-equistatic:degree=2, seed=3")
        ['base:k=1', 'ring', 'u-equistatic:degree=2,seed=3']
        >>> split_specs("ring,,torus"), split_specs(" ,")
        (['ring', '', 'torus'], [])

    """
    specs: list[str] = []
    for item in map(str.strip, text.split(",")):
        if specs and "=" in item.partition(":")[0]:
            specs[-1] += f",{item}"
        else:
            specs.append(item)
    return specs if any(specs) else []


def spec_of(name: str, options: Mapping[str, object]) -> str:
    """The spec of a name with these options.

    >>> spec_of("dsgdm", {"momentum": 0.5, "nesterov": True}), spec_of("ring", {})
    ('dsgdm:momentum=0.5,nesterov=true', 'ring')
    """
    written = ",".join(
        f"{option}={str(value).lower() if isinstance(value, bool) else value}"
        for option, value in options.items()
    )
    return f"{name}:{written}" if written else name


def refuse_twice(spec: str, written: Mapping[str, object], given: Mapping[str, object]) -> None:
    """Refuse an option that is given both in a spec and beside it."""
    for option in written.keys() & given.keys():
        raise InvalidArgument(option, given[option], f"is given in the spec {spec!r} already")


def value_of(text: str) -> object:
    """An option's value as written: an integer, true or false, or the text itself.

    >>> value_of("3"), value_of("true"), value_of("1/3")
    (3, True, '1/3')
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        return text


def _is_a(kind: type, value: object) -> bool:
    """Whether a value may stand for a default of this type: an integer may for a number."""
    if kind not in _ACCEPTED or isinstance(value, bool):
        return kind not in _ACCEPTED or kind is bool
    return isinstance(value, (int, float) if kind is float else kind)
