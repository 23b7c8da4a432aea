"""What `bench` and `tune` are given: lengths of time as people type them, and files to write to."""

from __future__ import annotations

import os
import re
from pathlib import Path

from mission_tui.errors import UsageError

_SPAN = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(s|m|h)?")
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_seconds(option: str, word: str, least_s: float, most_s: float) -> float:
    """Seconds of `60s`, `10m`, `1h` or a bare number, from `least_s` to `most_s`. Raises `UsageError`."""
    match = _SPAN.fullmatch(word.strip())
    seconds = 0.0 if match is None else float(match[1]) * _UNIT_S[match[2] or "s"]
    if not least_s <= seconds <= most_s:
        limits = f"from {_short(least_s)} to {_short(most_s)}"
        raise UsageError(f"{option} {word!r} is no time {limits}, such as 60s, 10m or 1h")
    return seconds


def _short(seconds: float) -> str:
    if seconds % 3600 == 0:
        return f"{seconds / 3600:g}h"
    return f"{seconds / 60:g}m" if seconds % 60 == 0 else f"{seconds:g}s"


def check_output(option: str, path: Path) -> None:
    """Raise `UsageError` naming `option` where `path` is a folder, or lies where nothing can be written.

    Folders that are missing are left to be made with the file. Asked before the minutes are spent that fill it.
    """
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder; name a file in it, such as {path / 'out'}")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if not there.is_dir():
        raise UsageError(f"{option} {path}: {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"{option} {path}: nothing can be written in {there}")
