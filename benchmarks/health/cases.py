"""What is scored: runs with a label, from outside this project (read in place) and constructed here.

A case knows which of its updates are sick. Everything the rules may read is in `records`; labels never reach them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal, Self

from msgspec import structs

import mission_tui
from benchmarks.health.halves import CONSTRUCTIONS, Half
from benchmarks.health.trace import TraceLabel, read_manifest, read_trace, trace_path
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import MetricRecord, TrainingStarted, UpdateDone
from mission_tui.fleet.health import HealthJudge, Settings, settings_of
from mission_tui.fleet.specs.health_file import HealthFile, profile_for
from mission_tui.fleet.specs.thresholds import Limits
from mission_tui.records.logs.read import read_log
from mission_tui.records.preset_files import load_health_file

__all__ = ["OUTSIDE", "Case", "Event", "Incident", "Judging", "constructed", "judged", "outside"]

OUTSIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
"""Logs that nobody here wrote, with their labels; absent on most machines."""

CAPS = {"BipedalWalker": 1600, "LunarLander": 1000, "MountainCarContinuous": 999, "Pendulum": 200}
"""Step limits of the environments as Gymnasium registers them."""

GRAVITY = {"info": 0, "warning": 1, "critical": 2}
Level = Literal["info", "warning", "critical"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something dated that happened in a run, from `onset` to `end`."""

    kind: str
    onset: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)  # one is what was made once, and known by that
class Case:
    """One run. `sick_from` is None where the whole run is healthy; `rules` are the right answers for a sick one.

    `sick_from` is when something was done to the run, `harm_from` when its harm was there to be seen, and
    `sick_until` the last update of a harm that passed. `onset` is when something was done, harmful or not.
    """

    name: str
    source: Literal["outside", "constructed", "foreign"]
    env: str
    kind: str
    label: str
    records: tuple[MetricRecord, ...]
    settings: Settings
    half: Half = "tuning"
    task: str = ""
    onset: int | None = None
    resumed: Mapping[int, Settings] = field(default_factory=dict)
    sick_from: int | None = None
    harm_from: int | None = None
    sick_until: int | None = None
    rules: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    busy: tuple[tuple[int, int], ...] = ()

    @property
    def rows(self) -> Iterator[UpdateDone]:
        """The updates alone."""
        return (record for record in self.records if isinstance(record, UpdateDone))

    @property
    def untouched(self) -> bool:
        """Whether nothing was done to it: tampering that did no harm leaves a run healthy too."""
        return self.healthy and (self.kind == "healthy" or CONSTRUCTIONS[self.kind][1].startswith("healthy"))

    @property
    def healthy(self) -> bool:
        """Whether all of it is."""
        return self.label == "healthy"

    @property
    def unclear(self) -> bool:
        """Whether something harmful was done to it and no harm was found: from then on nobody says what it is."""
        return self.label == "unclear"


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident as a person would have met it: how bad it became, and when it was first more than information.

    `below` is the rule of the finding that it is told as a symptom of, "" where it is told on its own.
    """

    rule: str
    level: Level
    first: int
    last: int
    below: str = ""


def outside(folder: Path = OUTSIDE) -> tuple[Case, ...]:
    """Every trace of `folder` with its label and its dated events; none where the folder is absent."""
    if not (folder / "labels.csv").is_file():
        return ()
    events: dict[str, list[Event]] = {}
    for row in _table(folder / "events.csv"):
        event = Event(row["event"], int(row["onset_iteration"]), int(row["end_iteration"]))
        events.setdefault(row["trace"], []).append(event)
    return tuple(
        _outside_case(folder / "traces" / f"{row['trace']}.csv", row["run_label"], tuple(events.get(row["trace"], ())))
        for row in _table(folder / "labels.csv")
    )


def constructed(half: Half | None = None, *names: str) -> tuple[Case, ...]:
    """Every recorded construction and its healthy twins, or those of one half, or of these names."""
    labels = (label for label in read_manifest() if half in (None, label.half))
    return tuple(_constructed_case(label) for label in labels if not names or label.name in names)


def judged(case: Case, limits: Limits) -> tuple[Incident, ...]:
    """Every incident that the rules open on `case`, as it would have opened live."""
    return Judging(case, limits).through(case.records).incidents


class Judging:
    """The rules on their way through a run. A deep copy goes on by itself, on a run that was the same so far."""

    def __init__(self, case: Case, limits: Limits) -> None:
        self._limits = limits_for(case, limits)
        self._judge = HealthJudge(case.settings, self._limits)
        self._resumed = case.resumed
        self._found: dict[str, Incident] = {}
        self._update = 0

    def through(self, records: Iterable[MetricRecord]) -> Self:
        """Judge the next records."""
        for record in records:
            if isinstance(record, TrainingStarted) and record.attempt in self._resumed:
                self._judge = HealthJudge(self._resumed[record.attempt], self._limits)
            elif isinstance(record, UpdateDone):
                self._update = record.update
            for finding in self._judge.feed(record):
                found = _with(self._found.get(finding.id), finding)
                cause = self._found.get(finding.part_of)
                self._found[finding.id] = replace(found, below="" if cause is None else cause.rule)
        return self

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """What was opened so far; what still is open lasts until the last update."""
        return tuple(it if it.last else replace(it, last=self._update) for it in self._found.values())


def limits_for(case: Case, limits: Limits) -> Limits:
    """The shipped limits of the profile that suits `case`, as a launch or `judge` takes; other limits as they are."""
    if limits != Limits():
        return limits
    return _shipped().limits(profile_for(case.settings.rollout, case.settings.clip_range))


@cache
def _shipped() -> HealthFile:
    return load_health_file(Path(mission_tui.__file__).with_name("health.toml"))


def _with(known: Incident | None, finding: Finding) -> Incident:
    last = finding.last_update if finding.state == "cleared" else 0
    if known is None:
        return Incident(finding.rule, finding.severity, finding.last_update, last)
    worse = GRAVITY[finding.severity] > GRAVITY[known.level]
    first = finding.last_update if worse and known.level == "info" else known.first
    return Incident(known.rule, finding.severity if worse else known.level, first, last)


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _outside_case(path: Path, label: str, events: tuple[Event, ...]) -> Case:
    log = read_log(path)
    env = next((part for part in path.stem.split("_") if "-v" in part), path.stem.split("_")[0])
    cap = next((steps for name, steps in CAPS.items() if name in path.stem), None)
    return Case(
        name=path.stem,
        source="outside",
        env=env,
        kind=label,
        label=label,
        records=log.records,
        settings=structs.replace(log.settings, env_id=env, max_episode_steps=cap),
        sick_from=None if label == "healthy" else 0,
        events=events,
    )


def _constructed_case(label: TraceLabel) -> Case:
    trace = read_trace(trace_path(label.name))
    sick = label.label == "positive"
    return Case(
        name=label.name,
        source="constructed",
        env=label.env,
        kind=label.construction,
        label=label.label,
        records=trace.records,
        settings=settings_of(trace.spec),
        half=label.half,
        task=label.name.removeprefix(f"{label.construction}-").rpartition("-s")[0],
        onset=label.onset_update,
        resumed={attempt: settings_of(spec) for attempt, spec in trace.resumed.items()},
        sick_from=label.onset_update or 0 if sick else None,
        harm_from=label.harm_update if sick else None,
        sick_until=label.harm_until if sick else None,
        rules=label.rules,
        busy=label.busy,
    )
