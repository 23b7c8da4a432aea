"""Numbers, spans and moments as people write them: `50M`, `1e6`, `10_000`, `2k` are whole numbers; `.001` and `3e-4`
are numbers; a goal is a mean return, or a share of episodes that succeed; `10m` is a span; `03:12` and
`2026-11-21T03:12` are moments, for which now is an argument, and which are local times.

Pure and bounded: no text, however long or large its exponent, costs more than a moment.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Literal

from msgspec import Struct

from mission_tui.errors import UsageError

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


BACK_S = 600.0
"""How far back a replay starts unless a time is given."""

_SPAN = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw]?)")
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_CLOSE = re.compile(
    r"(?:(\d{4}-\d\d-\d\d)[T ]+)?(\d{1,2})[:.,h ]?(\d{2})?[:.]?\d{0,2} ?(?:([ap])\.?m\.?)?h?", re.IGNORECASE
)
"""Times of day as people write them elsewhere: `0312`, `3.12`, `3:12 pm`."""


def span_s(word: str) -> float | None:
    """Seconds of a span such as `10m`, of a bare number too; None for what is none."""
    match = _SPAN.fullmatch(word.strip())
    return None if match is None else float(match[1]) * _UNIT_S[match[2] or "s"]


def parse_span_s(word: str, flag: str, least_s: float | None = None, most_s: float = math.inf) -> float:
    """Seconds of a span such as `14d`, from `least_s` to `most_s`; where a least is given, a bare number is seconds.

    Raises `UsageError` that names `flag`.
    """
    match = _SPAN.fullmatch(word.strip())
    if match is None or not (match[2] or least_s is not None):
        raise UsageError(f"{flag} {word!r} is not a length of time: give a number and s, m, h, d or w, such as 10m")
    seconds = float(match[1]) * _UNIT_S[match[2] or "s"]
    if least_s is not None and not least_s <= seconds <= most_s:
        most = "" if most_s == math.inf else f" and at most {_short(most_s)}"
        raise UsageError(f"{flag} {word!r} is out of range: give at least {_short(least_s)}{most}")
    return seconds


def _short(seconds: float) -> str:
    unit = next(unit for unit in ("d", "h", "m", "s") if unit == "s" or seconds % _UNIT_S[unit] == 0)
    return f"{seconds / _UNIT_S[unit]:g}{unit}"


def parse_moment(word: str, now: float) -> float:
    """The unix time that `word` means at unix time `now`; a time of day is the last one before `now`.

    What the clocks showed twice is the later of the two that has been. Raises `UsageError` for what is no time, with
    the nearest words that are one, for what the clocks passed over, and for what is still to come.
    """
    text = word.strip()
    clock = _CLOCK.fullmatch(text)
    try:
        if clock is None:
            found = _on_its_date(datetime.fromisoformat(text), now)
        else:
            hour, minute, second = (int(part or 0) for part in clock.groups())
            found = _last_one(time(hour, minute, second), now)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"{word!r} is not a time; give one such as {_nearest(text)}") from error
    if found > now:
        raise UsageError(f"{word!r} lies in the future; a replay shows the past")
    return found


def _on_its_date(meant: datetime, now: float) -> float:
    found = _of_local(meant, now)
    if found is None:
        there = datetime.fromtimestamp(meant.timestamp(), UTC).astimezone()
        raise UsageError(f"there was no {meant:%Y-%m-%dT%H:%M} here: the clocks went forward to {there:%Y-%m-%dT%H:%M}")
    return found


def _last_one(time_of_day: time, now: float) -> float:
    """The last such moment before `now`. A day on which the clocks were put forward over it has none."""
    today = datetime.fromtimestamp(now, UTC).astimezone().date()
    days = (datetime.combine(today - timedelta(days=back), time_of_day) for back in range(3))
    meant = (_of_local(day, now) for day in days)
    return next(moment for moment in meant if moment is not None and moment <= now)


def _of_local(meant: datetime, now: float) -> float | None:
    """The unix time of what clocks here showed; None where they never did."""
    if meant.tzinfo is not None:
        return meant.timestamp()
    both = {meant.replace(fold=fold).timestamp() for fold in (0, 1)}
    shown = sorted(it for it in both if datetime.fromtimestamp(it, UTC).astimezone().replace(tzinfo=None) == meant)
    been = [it for it in shown if it <= now]
    if been:
        return been[-1]
    return shown[0] if shown else None


def _nearest(text: str) -> str:
    """What may have been meant, in words that are understood; without an idea of it two examples."""
    span = _SPAN.fullmatch(text)
    if span is not None and span[2]:
        return f"03:12, or for {text} before now --back {text}"
    digits = _CLOSE.fullmatch(text)
    if digits is None:
        return "03:12 or 2026-11-21T03:12"
    date, hour, minute, night = digits.groups()
    hours, minutes = int(hour), int(minute or 0)
    if night is not None and hours <= 12:
        hours = hours % 12 + (12 if night.lower() == "p" else 0)
    if hours == 24:
        hours = 0
    return f"{f'{date}T' if date else ''}{min(hours, 23):02}:{min(minutes, 59):02}"
