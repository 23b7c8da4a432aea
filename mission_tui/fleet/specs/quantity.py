"""Numbers as people write them: `50M`, `1e6`, `10_000`, `2k` are whole numbers; `.001` and `3e-4` are numbers.

Pure and bounded: no text, however long or large its exponent, costs more than a moment.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

_WHOLE = re.compile(r"([+-]?\d[\d_]{0,30}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?)\s*([kmg]?)", re.IGNORECASE | re.ASCII)
_FACTOR = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_LARGEST = 2**63
_SHOWN_CHARACTERS = 60


def parse_whole(value: object) -> int | None:
    """The whole number that `value` (a number, or text such as ``50M``) means; None when it means none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    match = _WHOLE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    number = Decimal(match[1].replace("_", "")) * _FACTOR[match[2].lower()]
    if abs(number) >= _LARGEST or number != number.to_integral_value():
        return None
    return int(number)


def parse_real(value: object) -> float | None:
    """The finite number that `value` (a number, or text such as ``.001``) means; None when it means none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def format_quantity(value: object) -> str:
    """`value` on one short line without control characters, as messages quote it."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= _LARGEST:
        return "a number beyond 64 bits"
    if isinstance(value, int | float | str):
        text = repr(value[: 2 * _SHOWN_CHARACTERS] if isinstance(value, str) else value)
        return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."
    return f"a {type(value).__name__}"
