"""Packages that `dev` has not."""

from __future__ import annotations

import pytest

from basegraph.extras import EXTRAS, is_installed


def needs(package: str) -> None:
    """Skip a test, and say why, where an extra is not installed."""
    if not is_installed(package):
        pytest.skip(f"needs {package}: pip install 'basegraph[{EXTRAS[package]}]'")
