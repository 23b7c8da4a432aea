"""SB3's `monitor.csv`: one line an episode, after a comment with its start time and a header `r,l,t`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mission_tui.fleet.events.metrics import Episodes, spoken

__all__ = ["Ended", "read_monitors", "sample_of"]

SAMPLED = 256
LONGEST = 2**40
"""More steps than any episode has: such a line is damage, and their sum has to stay a number that can be written."""


@dataclass(frozen=True, slots=True, order=True)
class Ended:
    """An episode: unix time of its end, return, steps, and the steps of all episodes up to it, itself included.

    `after_s` are the seconds from its monitor's beginning to its end.
    """

    t: float
    r: float
    length: int
    steps: int = 0
    after_s: float = 0.0


def read_monitors(paths: Iterable[Path]) -> list[Ended]:
    """The episodes in all files, in the order of their ends; lines that are none, or not whole, are passed over.

    Raises `OSError`.
    """
    episodes = sorted(episode for path in paths for episode in _read(path))
    steps = 0
    counted: list[Ended] = []
    for episode in episodes:
        steps += episode.length
        counted.append(replace(episode, steps=steps))
    return counted


def sample_of(ended: Sequence[Ended]) -> Episodes:
    """How many there are, and of the newest their returns and lengths."""
    newest = ended[-SAMPLED:]
    return Episodes(n=len(ended), r=tuple(spoken(it.r) for it in newest), l=tuple(it.length for it in newest))


def _read(path: Path) -> list[Ended]:
    head, *lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    started = _started(head)
    columns = lines[0].strip().split(",") if lines else []
    if not {"r", "l", "t"} <= set(columns):
        return []
    places = [columns.index(name) for name in ("t", "r", "l")]
    episodes = []
    # What follows the last newline is not whole yet.
    for line in lines[1:-1]:
        cells = line.strip().split(",")
        try:
            t, r, length = (float(cells[place]) for place in places)
        except (ValueError, IndexError):
            continue
        if math.isfinite(started + t) and 0 <= length <= LONGEST:
            episodes.append(Ended(started + t, r, int(length), after_s=t))
    return episodes


def _started(head: str) -> float:
    try:
        started = float(json.loads(head.removeprefix("#"))["t_start"])
        return started if math.isfinite(started) else 0.0
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return 0.0
