"""What a measurement came from: command, commit, machine. Printed above every benchmark."""

from __future__ import annotations

import platform
from pathlib import Path

from basegraph.storage import provenance


def header() -> str:
    facts = provenance("made by the benchmark")
    versions = [f"{name} {facts[name]}" for name in ("python", "numpy", "torch") if name in facts]
    lines = {
        "command": facts["command"],
        "commit": facts["commit"],
        "machine": ", ".join(
            [facts["machine"], _processor(), *([facts["gpu"]] if "gpu" in facts else [])]
        ),
        "with": ", ".join(versions),
    }
    return "\n".join(f"{name:<8} {text}" for name, text in lines.items())


def _processor() -> str:
    """The name of the processor, which Linux alone tells in full."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
