"""Moments and spans as people write them: `03:12`, `2026-11-21T03:12`, `10m`. Now is an argument; times are local."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from mission_tui.errors import UsageError

__all__ = ["moment_of", "span_s"]

_SPAN = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])")
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")


def span_s(word: str, flag: str) -> float:
    """Seconds of a span such as `14d`. Raises `UsageError` that names `flag`."""
    match = _SPAN.fullmatch(word.strip())
    if match is None:
        raise UsageError(f"{flag} {word!r} is no span of time: give a number and s, m, h, d or w, such as 10m")
    return float(match[1]) * _UNIT_S[match[2]]


def moment_of(word: str, now: float) -> float:
    """The unix time that `word` means at unix time `now`; a time of day is the last one before `now`.

    Raises `UsageError` for what is no time, and for what is still to come.
    """
    text, today = word.strip(), datetime.fromtimestamp(now, UTC).astimezone().replace(tzinfo=None)
    clock = _CLOCK.fullmatch(text)
    try:
        if clock is None:
            meant = datetime.fromisoformat(text)
        else:
            hour, minute, second = (int(part or 0) for part in clock.groups())
            meant = today.replace(hour=hour, minute=minute, second=second, microsecond=0)
            meant -= timedelta(days=1) if meant > today else timedelta()
        moment = meant.timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"{word!r} is no time: give one such as 03:12 or 2026-11-21T03:12") from error
    if moment > now:
        raise UsageError(f"{word!r} is still to come: a replay shows what was")
    return moment
