"""`basegraph doctor`: what is installed, what is missing, and how to install it."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from importlib import metadata
from typing import Annotated, Any

import typer

from basegraph import __version__
from basegraph.cli.output import as_json, table
from basegraph.extras import DISTRIBUTIONS, EXTRAS, is_installed

CORE = ("numpy", "scipy", "networkx", "typer", "rich")
BACKENDS = ("gloo", "nccl", "mpi")


def doctor(json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> int:
    """Show versions, backends, GPUs, and which extras are installed or missing.

    Example: basegraph doctor

    The exit code is 0 unless the core does not work.
    """
    found = examination()
    if json:
        as_json(found)
    else:
        _print(found)
    return 0 if found["core"]["works"] else 1


def examination() -> dict[str, Any]:
    """What there is on this machine, by topic."""
    return {
        "basegraph": __version__,
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "core": {
            **_attempt(_proof),
            "versions": {package: _version(package) for package in CORE},
        },
        "torch": _attempt(_torch) if is_installed("torch") else {"works": False, "said": "missing"},
        "extras": _extras(),
    }


def _attempt(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What the check finds, or how it fails; never raises."""
    try:
        return {"works": True, **work()}
    except Exception as error:
        return {"works": False, "said": f"{type(error).__name__}: {error}"}


def _proof() -> dict[str, Any]:
    """The core at work: a proof."""
    from basegraph.topologies.catalog import topology
    from basegraph.topologies.verify.certificate import verify

    return {"said": str(verify(topology("base:k=1", 25)))}


def _torch() -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    available = dist.is_available()
    return {
        "said": torch.__version__,
        "backends": {
            name: bool(available and getattr(dist, f"is_{name}_available")()) for name in BACKENDS
        },
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "threads": torch.get_num_threads(),
    }


def _extras() -> dict[str, dict[str, Any]]:
    """By extra: its packages with their versions, and the command that installs what is missing."""
    extras: dict[str, dict[str, Any]] = {}
    for package, extra in EXTRAS.items():
        entry = extras.setdefault(extra, {"packages": {}, "install": None})
        name = DISTRIBUTIONS.get(package, package)
        entry["packages"][name] = _version(name) if is_installed(package) else None
        if entry["packages"][name] is None:
            entry["install"] = f"pip install 'basegraph[{extra}]'"
    return extras


def _version(name: str) -> str | None:
    """The version of a distribution, or what is known of a package without one."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "?" if is_installed(name.replace("-", "_")) else None


def _print(found: dict[str, Any]) -> None:
    torch, core = found["torch"], found["core"]
    backends, gpus = torch.get("backends", {}), torch.get("gpus", [])
    rows = [
        ("basegraph", found["basegraph"]),
        ("python", found["python"]),
        ("machine", found["machine"]),
        *core["versions"].items(),
        ("a proof", core["said"]),
        ("torch", torch["said"]),
        ("backends", ", ".join(name for name, there in backends.items() if there) or "none"),
        ("GPUs", ", ".join(gpus) or "none"),
    ]
    table(["what", "here"], rows)
    print()
    lines = []
    for extra, entry in found["extras"].items():
        packages = [f"{name} {version or 'missing'}" for name, version in entry["packages"].items()]
        lines.append((extra, ", ".join(packages), entry["install"] or "installed"))
    table(["extra", "packages", "to install it"], lines)
    if not core["works"]:
        print(f"\nthe core does not work: {core['said']}")
