"""Public names that are imported on first use, so that importing a package stays cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import ismodule

from basegraph.extras import is_installed, optional_imports


def lazy_names(
    package: str, homes: Mapping[str, str], needs: Mapping[str, str] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Make the `__getattr__` and `__dir__` of a package that loads its names on first use.

    Packages call this in the `else` branch of `if TYPE_CHECKING:`, where the same names are
    imported as usual: type checkers and editors see ordinary imports.

    Args:
        package: `__name__` of the package.
        homes: Name -> the module that `from MODULE import NAME` takes it from.
        needs: Name -> the optional package that it needs. `dir` leaves out what cannot be loaded
            here, so that `help` and `inspect.getmembers` work without the extras.

    Returns:
        The two functions, to be bound to `__getattr__` and `__dir__`.

    Example:
        >>> load, names = lazy_names("basegraph", {"Fraction": "fractions"})
        >>> load("Fraction")(1, 2)
        Fraction(1, 2)
        >>> load("Friction")
        Traceback (most recent call last):
        AttributeError: module 'basegraph' has no attribute 'Friction'

    """

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with optional_imports():
            home = import_module(homes[name])
            if not hasattr(home, name):  # a submodule
                import_module(f"{homes[name]}.{name}")
        value: object = getattr(home, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        missing = {name for name, extra in (needs or {}).items() if not is_installed(extra)}
        own = {n for n, v in vars(sys.modules[package]).items() if n[:2] == "__" or ismodule(v)}
        return sorted(own | (homes.keys() - missing))

    return load, names
