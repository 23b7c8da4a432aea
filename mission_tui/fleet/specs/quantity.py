"""Numbers as people write them: `50M`, `1e6`, `10_000`, `2k` are whole numbers; `.001` and `3e-4` are numbers; a goal
is a mean return, or a share of episodes that succeed.

Pure and bounded: no text, however long or large its exponent, costs more than a moment.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Literal

from msgspec import Struct

_WHOLE = re.compile(r"([+-]?\d[\d_]{0,30}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?)\s*([kmg]?)", re.IGNORECASE | re.ASCII)
_BYTES = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([kmgt])(i)?b?", re.IGNORECASE | re.ASCII)
_FACTOR = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_LARGEST = 2**63
_SHOWN_CHARACTERS = 60

GoalOf = Literal["return", "success"]
_SHARE = re.compile(r"(?:(?:reached|success(?:[ _]rate)?)\s+)?(-?\d{1,9}(?:\.\d{0,9})?)\s*%", re.IGNORECASE | re.ASCII)
_WORDED = re.compile(r"(reached|return|success(?:[ _]rate)?)\s+(\S{1,30})", re.IGNORECASE | re.ASCII)


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


def parse_bytes(text: str) -> int | None:
    """The bytes that `text` means, such as `8G` and `8GB` (decimal) or `8GiB` (binary); None when it means none."""
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        return None
    base = 1024 if match[3] else 1000
    number = Decimal(match[1]) * base ** (1 + "kmgt".index(match[2].lower()))
    return int(number) if number == number.to_integral_value() and number < _LARGEST else None


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


class Goal(Struct, frozen=True):
    """`value` is a mean return, or a share of 0..1."""

    of: GoalOf
    value: float

    @property
    def words(self) -> str:
        """As it can be written: `475`, `success 80%`."""
        return f"{self.value:g}" if self.of == "return" else f"success {self.value * 100:g}%"


def parse_goal(written: float | str) -> Goal:
    """The goal that `run.goal` means; raises `ValueError` with a sentence that names the nearest valid value."""
    if isinstance(written, str):
        text = written.strip()
        if (share := _SHARE.fullmatch(text)) is not None:
            return _success(written, float(share[1]) / 100)
        if (worded := _WORDED.fullmatch(text)) is not None and (number := parse_real(worded[2])) is not None:
            return _success(written, number) if worded[1].lower().startswith("success") else Goal("return", number)
    number = parse_real(written)
    if number is None or not math.isfinite(number):
        raise ValueError(
            f"run.goal = {format_quantity(written)} must be a mean return such as 475, "
            "or a success rate such as 'success 80%'"
        )
    return Goal("return", number)


def _success(written: str, share: float) -> Goal:
    if 0.0 < share <= 1.0:
        return Goal("success", share)
    near = "'success 100%'" if share > 1.0 else "'success 1%'"
    raise ValueError(
        f"run.goal = {format_quantity(written)} must be above 0% and at most 100%; the nearest valid value is {near}"
    )
