"""Whether a tampered training really came to harm, by measures fixed before any seed of the split `judge` was trained.

No harm, no positive: what was done to a training proves nothing. Harm is read from raw episodes, outcomes, clocks and
the trainer's last word, and all but clocks is measured against the healthy twin, which no rule ever sees.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from benchmarks.health.trace import Trace
from mission_tui.fleet.events.metrics import DutyFailed, Episodes, TrainingEnded

__all__ = [
    "Harm",
    "HarmTest",
    "dropped",
    "fell_behind",
    "hung",
    "lived_at_the_cap",
    "lost_for_long",
    "never_learned",
    "paid_less",
    "slowed_down",
    "swung",
    "turned_nan",
    "unsaved",
]

LOST_GAIN = 0.25
"""Share of what the twin learned that must be missing before a training counts as harmed."""

_WINDOW = 10
_LONG = 30
WON = ("captured", "early_success")
_IDLE = ("timeout", "stalled")

Scores = Callable[[Episodes], list[float]]


@dataclass(frozen=True, slots=True)
class Harm:
    """Harm is there from update `update` on, to `until` where it passed; `sentence` holds the numbers."""

    update: int
    sentence: str
    until: int | None = None


class HarmTest(Protocol):
    """Whether `trace`, tampered with from update `onset` on, came to harm; `twin` is the same training left alone."""

    def __call__(self, trace: Trace, twin: Trace, onset: int, scores: Scores) -> Harm | None: ...


def fell_behind(trace: Trace, twin: Trace, onset: int, scores: Scores) -> Harm | None:
    """In its last quarter the mean score is below the twin's 5 % band and misses a quarter of what the twin learned."""
    last = trace.updates[-1].update
    # A twin that was trained for less is compared by its own last quarter.
    until = min(last, twin.updates[-1].update)
    own = statistics.fmean(_scores(trace, scores, last * 3 // 4 + 1, last))
    level = statistics.fmean(_scores(twin, scores, until * 3 // 4 + 1, until))
    start = statistics.fmean(_scores(twin, scores, 1, 2 * _WINDOW))
    gap = LOST_GAIN * (level - start)
    band = statistics.quantiles(_means(twin, scores, until * 3 // 4 + 1, until), n=20)[0]
    if own >= min(level - gap, band):
        return None
    return Harm(
        _since(trace, twin, onset, scores, gap),
        f"mean score of the last quarter {own:.3g}, the twin's {level:.3g} with a 5 % band from {band:.3g} "
        f"and a start of {start:.3g}",
    )


def lost_for_long(trace: Trace, twin: Trace, onset: int, scores: Scores) -> Harm | None:
    """For 30 updates in a row the mean score of ten misses a quarter of what the twin had learned by then, and lies
    below the 5 % band of the twin's last 30 updates: a training may come back and has still lost that time.
    """
    last = min(trace.updates[-1].update, twin.updates[-1].update)
    start = statistics.fmean(_scores(twin, scores, 1, 2 * _WINDOW))
    begun: int | None = None
    for update in range(onset + _WINDOW - 1, last + 2):
        if update <= last and _is_behind(trace, twin, update, scores, start):
            begun = begun or update - _WINDOW + 1
        elif begun is not None and update - begun - _WINDOW + 1 >= _LONG:
            passed = None if update > last else update - 1
            return Harm(begun, f"behind its twin from update {begun} to {update - 1}", passed)
        else:
            begun = None
    return None


def paid_less(trace: Trace, twin: Trace, onset: int, scores: Scores) -> Harm | None:
    """What `lost_for_long` asks, of the return that is received, whatever the task says of it.

    Only for constructions after which what is paid no longer tells the task: it is gone, reversed, or paid by liars. A
    reward that is cut to its sign is smaller too, and still tells something.
    """
    harm = lost_for_long(trace, twin, onset, lambda episodes: [float(value) for value in episodes.r])
    return None if harm is None else Harm(harm.update, f"by the return that it receives {harm.sentence}", harm.until)


def _is_behind(trace: Trace, twin: Trace, update: int, scores: Scores, start: float) -> bool:
    first = update - _WINDOW + 1
    own, level = (statistics.fmean(_scores(one, scores, first, update)) for one in (trace, twin))
    means = _means(twin, scores, max(1, update - _LONG + 1), update)
    band = statistics.quantiles(means, n=20)[0] if len(means) > 1 else level
    return own < min(level - LOST_GAIN * (level - start), band)


def dropped(trace: Trace, twin: Trace, onset: int, scores: Scores) -> Harm | None:
    """In the ten updates after the onset the mean score misses a quarter of what the twin had learned by then."""
    own, level = (statistics.fmean(_scores(one, scores, onset, onset + _WINDOW)) for one in (trace, twin))
    start = statistics.fmean(_scores(twin, scores, 1, _WINDOW))
    if own >= level - LOST_GAIN * (level - start):
        return None
    return Harm(onset, f"mean score of ten updates {own:.3g}, the twin's {level:.3g} after a start of {start:.3g}")


def never_learned(trace: Trace, twin: Trace, onset: int, scores: Scores) -> Harm | None:
    """In its last quarter it has learned less than a quarter of what the twin has."""
    last = trace.updates[-1].update
    own, level = (statistics.fmean(_scores(one, scores, last * 3 // 4 + 1, last)) for one in (trace, twin))
    start = statistics.fmean(_scores(twin, scores, 1, _WINDOW))
    if own - start >= LOST_GAIN * (level - start):
        return None
    return Harm(onset, f"mean score of the last quarter {own:.3g}, the twin's {level:.3g} after a start of {start:.3g}")


def unsaved(trace: Trace, twin: Trace, onset: int, scores: Scores) -> Harm | None:
    """A checkpoint could not be written."""
    failed = next((record for record in trace.records if isinstance(record, DutyFailed)), None)
    return None if failed is None else Harm(max(onset, failed.update), failed.why)


def lived_at_the_cap(trace: Trace, twin: Trace, onset: int, scores: Scores) -> Harm | None:
    """In its last quarter it wins less than half as often as the twin and most episodes end without a decision."""
    first = trace.updates[-1].update * 3 // 4 + 1
    won, idle = _outcome_share(trace, WON, first), _outcome_share(trace, _IDLE, first)
    twin_won = _outcome_share(twin, WON, twin.updates[-1].update * 3 // 4 + 1)
    if won >= twin_won / 2 or idle < 0.5:
        return None
    wins = [(row.update, _outcome_share(trace, WON, row.update, row.update + _WINDOW)) for row in trace.updates]
    since = next(update for update, share in wins if update >= onset and share < twin_won / 2)
    return Harm(since, f"wins of the last quarter {won:.0%}, the twin's {twin_won:.0%}; {idle:.0%} end undecided")


def swung(trace: Trace, twin: Trace, onset: int, scores: Scores) -> Harm | None:
    """Raw scores swing at least 4 times by over 30 % of their range in 100 updates; the twin's not by as much."""
    course, twin_course = _course(trace, onset, scores), _course(twin, onset, scores)
    levels = sorted(level for _, level in course)
    size = 0.3 * (levels[int(0.95 * (len(levels) - 1))] - levels[int(0.05 * (len(levels) - 1))])
    turns, twin_turns = _turns(course, size), _turns(twin_course, size)
    if len(turns) < 4 or len(twin_turns) >= 4:
        return None
    return Harm(turns[3], f"{len(turns)} swings in 100 updates (by updates {turns}), the twin {len(twin_turns)}")


def slowed_down(trace: Trace, twin: Trace, onset: int, scores: Scores) -> Harm | None:
    """At least 5 updates in a row run below 60 % of the median steps per second before the onset.

    Not beside the twin: it ran at another time, and a machine has busy and quiet ones.
    """
    usual = statistics.median(row.steps_per_s for row in trace.updates if row.update < onset)
    slow = [row.update for row in trace.updates if row.update >= onset and row.steps_per_s < 0.6 * usual]
    runs = [update for update in slow if all(update - back in slow for back in range(5))]
    if not runs:
        return None
    speed = statistics.fmean(row.steps_per_s for row in trace.updates if row.update in slow)
    return Harm(runs[0] - 4, f"{speed:,.0f} steps/s in {len(slow)} updates, {usual:,.0f} before")


def hung(trace: Trace, twin: Trace, onset: int, scores: Scores) -> Harm | None:
    """Two rows lie more than 120 s apart."""
    for before, after in pairwise(trace.updates):
        if after.t - before.t > 120.0:
            return Harm(after.update, f"{after.t - before.t:.0f} s between updates {before.update} and {after.update}")
    return None


def turned_nan(trace: Trace, twin: Trace, onset: int, scores: Scores) -> Harm | None:
    """The trainer's last word is that numbers went bad."""
    last = trace.records[-1]
    if not isinstance(last, TrainingEnded) or last.failure != "nan":
        return None
    return Harm(last.update, last.cause)


def _span(trace: Trace, first: int, last: int | None = None) -> list[Episodes]:
    return [row.episodes for row in trace.updates if row.update >= first and (last is None or row.update <= last)]


def _scores(trace: Trace, scores: Scores, first: int, last: int) -> list[float]:
    """Scores of all sampled episodes of updates `first` to `last`.

    More than a window is looked at if none ended: back first, and ahead where none had ended at all.
    """
    end = trace.updates[-1].update
    while not (found := [score for episodes in _span(trace, first, last) for score in scores(episodes)]):
        if first <= 1 and last >= end:
            raise ValueError(f"no episode of {trace.name} ended")
        first, last = (first - _WINDOW, last) if first > 1 else (first, last + _WINDOW)
    return found


def _means(trace: Trace, scores: Scores, first: int, last: int) -> list[float]:
    """Mean score of each update in which an episode ended."""
    return [statistics.fmean(found) for episodes in _span(trace, first, last) if (found := scores(episodes))]


def _since(trace: Trace, twin: Trace, onset: int, scores: Scores, gap: float) -> int:
    """The first update after `onset` from which on, ten updates long, the mean of ten stays `gap` below the twin's."""
    last = trace.updates[-1].update
    behind = 0
    for update in range(onset, last + 1):
        own = statistics.fmean(_scores(trace, scores, max(onset, update - _WINDOW + 1), update))
        other = statistics.fmean(_scores(twin, scores, update - _WINDOW + 1, update))
        behind = behind + 1 if own < other - gap else 0
        if behind == _WINDOW:
            return update - _WINDOW + 1
    return last * 3 // 4 + 1


def _outcome_share(trace: Trace, names: Sequence[str], first: int, last: int | None = None) -> float:
    spans = _span(trace, first, last)
    total = sum(sum(episodes.outcomes.values()) for episodes in spans)
    return sum(episodes.outcomes.get(name, 0) for episodes in spans for name in names) / total if total else 0.0


def _course(trace: Trace, onset: int, scores: Scores) -> list[tuple[int, float]]:
    """Means over three updates, in the 100 updates from `onset` on."""
    return [
        (row.update, statistics.fmean(_scores(trace, scores, row.update - 2, row.update)))
        for row in trace.updates
        if onset <= row.update < onset + 100
    ]


def _turns(course: Sequence[tuple[int, float]], size: float) -> list[int]:
    """Updates at which a swing of over `size`, up or down, is completed."""
    turns: list[int] = []
    low = high = course[0][1]
    direction = 0
    for update, level in course:
        high = max(high, level) if direction >= 0 else high
        low = min(low, level) if direction <= 0 else low
        if direction >= 0 and level < high - size:
            turns.append(update)
            direction, low = -1, level
        elif direction <= 0 and level > low + size:
            turns.append(update)
            direction, high = 1, level
    return turns
