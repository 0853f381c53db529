"""What pytest leaves out: modules whose package, an extra that `dev` has not, is not installed."""

from __future__ import annotations

from basegraph.extras import is_installed

collect_ignore = [
    f"src/basegraph/integrations/{package}.py"
    for package in ("accelerate", "lightning", "transformers")
    if not is_installed(package)
]
