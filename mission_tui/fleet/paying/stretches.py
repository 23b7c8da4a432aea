"""Who trained when, and the stretches of time in which the same runs trained and none was just starting.

A run is company from its hand-over to a keeper, but counts only once it is warm: what lies between belongs to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Stay", "Stretch", "stretches_of"]


@dataclass(frozen=True, slots=True)
class Stay:
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
class Stretch:
    """From `begin` to `end` (unix s) the warm runs were `runs`, and nobody came or went; `open` until now."""

    begin: float
    end: float
    runs: frozenset[str]
    open: bool = False


def stretches_of(stays: Iterable[Stay], now: float) -> list[Stretch]:
    """Every stretch up to `now` in which at least one run trained, oldest first."""
    found: list[Stretch] = []
    here: set[str] = set()
    coming: set[Stay] = set()
    begun = float("-inf")
    for t, what, stay in sorted(_turns(stays, now), key=lambda turn: (turn[0], turn[1] != "gone")):
        if here and not coming and t > begun:
            found.append(Stretch(begun, t, frozenset(here)))
        begun = t
        match what:
            case "comes":
                coming.add(stay)
            case "warm":
                coming.discard(stay)
                here.add(stay.run)
            case _:
                coming.discard(stay)
                if stay.warm is not None and stay.warm <= t:
                    here.discard(stay.run)
    if here and not coming and now > begun:
        found.append(Stretch(begun, now, frozenset(here), open=True))
    return found


def _turns(stays: Iterable[Stay], now: float) -> Iterable[tuple[float, str, Stay]]:
    for stay in stays:
        if stay.since > now:
            continue
        yield stay.since, "comes", stay
        until = stay.until
        if stay.warm is not None and stay.warm <= now and (until is None or stay.warm < until):
            yield stay.warm, "warm", stay
        if until is not None and until <= now:
            yield until, "gone", stay
