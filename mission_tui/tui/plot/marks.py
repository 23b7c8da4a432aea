"""What happened to a run, as places on a chart's axis: findings, checkpoints, resumes, new settings, evaluations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from mission_tui.fleet.events.findings import GRAVITY, Severity
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import DetailsReply, HistoryReply
from mission_tui.tui.plot.scale import Ruler

MarkKind = Literal["checkpoint", "resume", "set", "evaluation"]


@dataclass(frozen=True, slots=True)
class Mark:
    """One place; `attempt` is the one that began at a resume."""

    kind: MarkKind
    place: float
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Band:
    """Where a finding was open."""

    first: float
    last: float
    severity: Severity


@dataclass(frozen=True, slots=True)
class Judged:
    """An evaluation's mean return and the 95 % interval around it."""

    place: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Marks:
    """Everything beside the curves; the gravest bands last, so that they lie on top."""

    marks: tuple[Mark, ...] = ()
    bands: tuple[Band, ...] = ()
    judged: tuple[Judged, ...] = ()


def marks_of(view: RunView, details: DetailsReply | None, history: HistoryReply, ruler: Ruler) -> Marks:
    """What is known of the stretch that `history` covers; what has no place on it is left out."""
    judged = tuple(_judged(details, ruler)) if details is not None else ()
    found: list[tuple[MarkKind, float | None, int]] = [("evaluation", it.place, 0) for it in judged]
    if details is not None:
        found += [("checkpoint", ruler.of_update(it.update), 0) for it in details.checkpoints]
        resumed = [(it.attempt, it.from_timesteps) for it in details.attempts if it.from_timesteps]
        found += [("resume", ruler.of_timesteps(steps), attempt) for attempt, steps in resumed]
    found += [("set", ruler.of_timesteps(it.timesteps), 0) for it in history.changes if it.timesteps is not None]
    marks = tuple(Mark(kind, place, attempt) for kind, place, attempt in found if place is not None)
    return Marks(marks, tuple(_bands(view, ruler)), judged)


def _bands(view: RunView, ruler: Ruler) -> Iterator[Band]:
    for finding in sorted(view.findings, key=lambda it: GRAVITY[it.severity]):
        last = ruler.of_update(finding.last_update)
        if last is not None:
            first = ruler.of_update(finding.first_update)
            yield Band(ruler.places[0] if first is None else first, last, finding.severity)


def _judged(details: DetailsReply, ruler: Ruler) -> Iterator[Judged]:
    """Those results that say of which checkpoint they are, and hold numbers: other programs may write there too."""
    steps = {it.name: it.timesteps for it in details.checkpoints}
    for result in details.evaluations:
        name = str(result.get("checkpoint", ""))
        timesteps = steps.get(name, int(name) if name.isdecimal() else None)
        values = _figures(result)
        place = None if timesteps is None else ruler.of_timesteps(timesteps)
        if place is not None and values is not None:
            yield Judged(place, *values)


def _figures(result: Mapping[str, Any]) -> tuple[float, float, float] | None:
    mean, interval = result.get("mean"), result.get("ci95")
    if not _is_number(mean) or result.get("policy") == "random":
        return None
    low, high = interval if isinstance(interval, list | tuple) and len(interval) == 2 else (mean, mean)
    return mean, low if _is_number(low) else mean, high if _is_number(high) else mean


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value)
