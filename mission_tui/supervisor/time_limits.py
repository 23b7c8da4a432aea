"""How long the supervisor waits, as the environment that it was started with says: read once, before it serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mission_tui.errors import UsageError

__all__ = ["TimeLimits", "read_time_limits"]

IDLE_S = 300.0
START_S = 120.0
"""Importing torch from a cold disk, starting 64 env workers and compiling took under a minute each where measured."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds until a supervisor without runs and clients leaves, and until a trainer that still starts is flagged."""

    idle_s: float = IDLE_S
    start_s: float = START_S


def read_time_limits(environ: Mapping[str, str]) -> TimeLimits:
    """`MISSION_TUI_IDLE_S` and `MISSION_TUI_START_S`; `inf` is never. Raises `UsageError` for what is no duration."""
    idle_s = _seconds(environ, "MISSION_TUI_IDLE_S", IDLE_S)
    return TimeLimits(idle_s, _seconds(environ, "MISSION_TUI_START_S", START_S))


def _seconds(environ: Mapping[str, str], name: str, usual: float) -> float:
    word = environ.get(name, "").strip()
    if not word:
        return usual
    try:
        seconds = float(word)
    except ValueError:
        seconds = float("nan")
    if not seconds >= 0.0:
        instead = "0" if seconds < 0.0 else f"{usual:g}"
        raise UsageError(f"{name} = '{word}' in the environment is no number of seconds from 0 on; say {instead}")
    return seconds
