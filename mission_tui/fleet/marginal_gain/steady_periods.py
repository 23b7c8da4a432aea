"""Who trained when, and the stretches of time in which the same runs trained and none was just starting.

A run is company from its hand-over to a keeper, but counts only once it is warm: what lies between belongs to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["SteadyPeriod", "TrainingSpan", "steady_periods"]


@dataclass(frozen=True, slots=True)
class TrainingSpan:
    """One stay of a run among those that train, in unix seconds.

    It comes at `since` (its keeper was asked for, or it goes on after a pause), counts from `warm` on (None while it
    starts and warms up) and is gone at `until` (it ended or is held; None while it is there). `kind` is equal for runs
    of which one step costs as much as another's.
    """

    run: str
    since: float
    warm: float | None
    until: float | None = None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class SteadyPeriod:
    """From `begin` to `end` (unix s) the warm runs were `runs`, and nobody came or went; `open` until now."""

    begin: float
    end: float
    runs: frozenset[str]
    open: bool = False


def steady_periods(stays: Iterable[TrainingSpan], now: float) -> list[SteadyPeriod]:
    """Every stretch up to `now` in which at least one run trained, oldest first."""
    found: list[SteadyPeriod] = []
    here: set[str] = set()
    coming: set[TrainingSpan] = set()
    begun = float("-inf")
    for t, what, span in sorted(_turns(stays, now), key=lambda turn: (turn[0], turn[1] != "gone")):
        if here and not coming and t > begun:
            found.append(SteadyPeriod(begun, t, frozenset(here)))
        begun = t
        match what:
            case "comes":
                coming.add(span)
            case "warm":
                coming.discard(span)
                here.add(span.run)
            case _:
                coming.discard(span)
                if span.warm is not None and span.warm <= t:
                    here.discard(span.run)
    if here and not coming and now > begun:
        found.append(SteadyPeriod(begun, now, frozenset(here), open=True))
    return found


def _turns(stays: Iterable[TrainingSpan], now: float) -> Iterable[tuple[float, str, TrainingSpan]]:
    for span in stays:
        if span.since > now:
            continue
        yield span.since, "comes", span
        until = span.until
        if span.warm is not None and span.warm <= now and (until is None or span.warm < until):
            yield span.warm, "warm", span
        if until is not None and until <= now:
            yield until, "gone", span
