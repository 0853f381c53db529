"""Bandwidths and times as people write them."""

from __future__ import annotations

import re

from basegraph.errors import InvalidArgument

PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}


def bandwidth(argument: str, text: str) -> float:
    """Bytes per second, written in bits (`200Mbit`, `10Gbit`) or bytes (`25MB`) per second.

    >>> bandwidth("--bandwidth", "200Mbit"), bandwidth("--bandwidth", "1.5GB")
    (25000000.0, 1500000000.0)
    """
    match = re.fullmatch(r"(\d+\.?\d*)\s*([kKmMgG]?)([bB]it|B)(?:/s)?", text.strip())
    value = float(match[1]) * PREFIXES[match[2].lower()] if match else 0.0
    if match is None or value == 0:
        raise InvalidArgument(
            argument, text, "must be bits or bytes per second, such as 200Mbit, 10Gbit or 25MB"
        )
    return value if match[3] == "B" else value / 8


def seconds(argument: str, text: str) -> float:
    """Seconds, written with a unit.

    >>> seconds("--latency", "5ms"), seconds("--latency", "0")
    (0.005, 0.0)
    """
    match = re.fullmatch(r"(\d+\.?\d*)\s*(s|ms|us|µs)", text.strip())
    if match is None and text.strip() != "0":
        raise InvalidArgument(argument, text, "must be a time such as 5ms, 50us, 0.1s or 0")
    return float(match[1]) * SECONDS[match[2]] if match else 0.0
