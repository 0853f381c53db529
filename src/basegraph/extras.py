"""Optional dependencies: which extra brings which package, and one line where it is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from basegraph.errors import BasegraphError

EXTRAS = {
    "torch": "train",
    "safetensors": "train",
    "sklearn": "train",
    "PIL": "train",
    "matplotlib": "plots",
    "ray": "ray",
    "tensorboard": "tensorboard",
    "torchft": "live",
    "tokenizers": "text",
    "accelerate": "hf",
    "transformers": "hf",
    "lightning": "lightning",
    "wandb": "wandb",
    "mlflow": "mlflow",
}
"""Import name of an optional package -> the extra of basegraph that installs it."""

DISTRIBUTIONS = {"sklearn": "scikit-learn", "PIL": "pillow", "mlflow": "mlflow-skinny"}
"""What pip calls a package, where that differs from its import name."""


class MissingExtra(BasegraphError, ImportError):
    """An optional package is not installed; the message is the pip command that installs it.

    Args:
        package: The import name of the package, one of `EXTRAS`.

    Example:
        >>> print(MissingExtra("sklearn"))
        this needs scikit-learn: pip install 'basegraph[train]'

    """

    def __init__(self, package: str) -> None:
        name = DISTRIBUTIONS.get(package, package)
        super().__init__(f"this needs {name}: pip install 'basegraph[{EXTRAS[package]}]'")
        self.package = package
        self.extra = EXTRAS[package]


def is_installed(package: str) -> bool:
    """Whether a package can be imported here; it is not imported."""
    return package in sys.modules or find_spec(package) is not None


def require(package: str) -> None:
    """Refuse to begin work whose end needs a package that is not installed.

    Args:
        package: The import name of a package of `EXTRAS`.

    Raises:
        MissingExtra: The package is not installed.

    """
    if not is_installed(package):
        raise MissingExtra(package)


@contextmanager
def optional_imports() -> Iterator[None]:
    """Import optional packages inside this block: a missing one raises `MissingExtra`.

    Raises:
        MissingExtra: An import in the block did not find a package of `EXTRAS`.

    Example:
        >>> with optional_imports():
        ...     raise ModuleNotFoundError("No module named 'ray'", name="ray")
        Traceback (most recent call last):
        basegraph.extras.MissingExtra: this needs ray: pip install 'basegraph[ray]'

    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingExtra(package) from error
