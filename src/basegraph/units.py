"""Bandwidths, times and sizes as people write them."""

from __future__ import annotations

import math
import re

from basegraph.errors import InvalidArgument

PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
NUMBER = r"(\d+\.?\d*)\s*"


def bandwidth(argument: str, text: str | float) -> float:
    """Bytes per second, written in bits (`200Mbit`, `10Gbit`) or bytes (`25MB`) per second.

    A number is bytes per second already.

    >>> bandwidth("--bandwidth", "200Mbit"), bandwidth("--bandwidth", "1.5GB")
    (25000000.0, 1500000000.0)
    """
    accepted = "must be bits or bytes per second, such as 200Mbit, 10Gbit or 25MB"
    if not isinstance(text, str):
        return _above_zero(argument, text, accepted)
    match = re.fullmatch(rf"{NUMBER}([kKmMgG]?)([bB]it|B)(?:/s)?", text.strip())
    value = float(match[1]) * PREFIXES[match[2].lower()] if match else 0.0
    if match is None or value == 0:
        raise InvalidArgument(argument, text, accepted)
    return value if match[3] == "B" else value / 8


def seconds(argument: str, text: str | float) -> float:
    """Seconds, written with a unit; a number is seconds already.

    >>> seconds("--latency", "5ms"), seconds("--latency", "0")
    (0.005, 0.0)
    """
    accepted = "must be a time such as 5ms, 50us, 0.1s or 0"
    if not isinstance(text, str):
        return _above_zero(argument, text, accepted, or_zero=True)
    match = re.fullmatch(rf"{NUMBER}(s|ms|us|µs)", text.strip())
    if match is None and text.strip() != "0":
        raise InvalidArgument(argument, text, accepted)
    return float(match[1]) * SECONDS[match[2]] if match else 0.0


def model_bytes(argument: str, text: str | int) -> int:
    """Bytes of a model: parameters (`9.2M`, 4 bytes each) or bytes (`37MB`).

    >>> model_bytes("--model-size", "9.2M"), model_bytes("--model-size", "37MB")
    (36800000, 37000000)
    >>> model_bytes("model_size", 1000)
    4000
    """
    match = re.fullmatch(rf"{NUMBER}([kKmMgGbBtT]?)(B?)", str(text).strip())
    prefix = match[2].lower() if match else ""
    in_bytes = bool(match and (match[3] or match[2] == "B"))
    if match and prefix == "b":  # 7B parameters is what people call seven billion
        raise InvalidArgument(
            argument, text, "may be bytes or billions: write 7G for parameters, 7GB for bytes"
        )
    value = float(match[1]) * PREFIXES[prefix] * (1 if in_bytes else 4) if match else 0.0
    if value < 1:
        raise InvalidArgument(
            argument, text, "must be parameters (4 bytes each) such as 9.2M, or bytes such as 37MB"
        )
    return round(value)


def rate_text(bytes_per_second: float) -> str:
    """A bandwidth in words.

    >>> rate_text(25e6), rate_text(125e6)
    ('200 Mbit/s', '1 Gbit/s')
    """
    return f"{_scaled(8 * bytes_per_second)}bit/s"


def bytes_text(size: float) -> str:
    """A number of bytes in words.

    >>> bytes_text(36_800_000), bytes_text(0)
    ('36.8 MB', '0 B')
    """
    return f"{_scaled(size)}B"


def seconds_text(time: float) -> str:
    """A time in words.

    >>> seconds_text(0.0051), seconds_text(2.5), seconds_text(0)
    ('5.1 ms', '2.5 s', '0 s')
    """
    unit = "s" if time >= 1 or time == 0 else "ms" if time >= 1e-3 else "µs"
    return f"{time / SECONDS[unit]:.3g} {unit}"


def _scaled(value: float) -> str:
    prefix = next((p for p in ("t", "g", "m", "k") if value >= 0.9995 * PREFIXES[p]), "")
    letter = prefix if prefix == "k" else prefix.upper()
    return f"{value / PREFIXES[prefix]:.3g} {letter}"


def _above_zero(argument: str, value: float, accepted: str, *, or_zero: bool = False) -> float:
    right_type = isinstance(value, int | float) and not isinstance(value, bool)
    if not (right_type and math.isfinite(value) and (value > 0 or (or_zero and value == 0))):
        raise InvalidArgument(argument, value, accepted)
    return float(value)
