"""Specs: a catalogue name with options behind a colon, such as `base:k=2` or `d2:damping=0.5`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from basegraph.errors import InvalidArgument, unknown


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


def refuse_twice(spec: str, written: Mapping[str, object], given: Mapping[str, object]) -> None:
    """Refuse an option that is given both in a spec and beside it."""
    for option in written.keys() & given.keys():
        raise InvalidArgument(option, given[option], f"is given in the spec {spec!r} already")


def value_of(text: str) -> object:
    """An option's value as written: an integer, true or false, or the text itself."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        return text
