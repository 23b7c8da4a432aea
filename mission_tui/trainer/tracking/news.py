"""What the files of a run say that was not passed on yet, as every tracker takes it.

`metrics.jsonl` and `events.jsonl` are read in slices, and each line counts once: by its `seq`, which rises over all
attempts. What `evaluate` wrote beside them, perhaps after the end of the run, counts once by the name of its file.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mission_tui.fleet.comparison_sides import effective_settings
from mission_tui.fleet.events import metrics
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, FindingChanged, FleetEvent, SettingsAsked
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.outcome import outcome_word
from mission_tui.fleet.specs.consistency import TRAINERS_OWN
from mission_tui.fleet.specs.schema import ENGINES
from mission_tui.fleet.specs.secrecy import is_harmless, is_secret, masked, masked_words
from mission_tui.fleet.specs.spec import Spec
from mission_tui.plain_files import names_in, read_plain
from mission_tui.records.jsonl import Tail
from mission_tui.records.runs.checkpoint import NAME
from mission_tui.records.runs.comparison_sides import read_sides
from mission_tui.records.runs.layout import RunDir

SLICE_BYTES = 1 << 20
EVALUATION_BYTES = 1 << 20
EVAL_STD = "eval/std_reward"
_ENV = "run.env."
_HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Point:
    """Values at `timesteps`. `seq` is their line's; `t` is unix time in seconds."""

    seq: int
    t: float
    timesteps: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class FindingNews:
    """A finding as it stands since unix time `t`, and the timesteps that it is about."""

    t: float
    timesteps: int
    finding: Finding

    @property
    def level(self) -> float:
        """0 for one that is over, 1 for information, 2 for a warning, 3 for what is critical."""
        if self.finding.state == "cleared":
            return 0.0
        return {"info": 1.0, "warning": 2.0, "critical": 3.0}[self.finding.severity]


@dataclass(frozen=True, slots=True)
class Saved:
    """The directory `folder` of the checkpoint at `timesteps`; it may have been pruned since."""

    timesteps: int
    folder: Path

    @property
    def is_there(self) -> bool:
        """Whether it is a folder of plain files: what takes it follows links, which may lead to anything of ours."""
        with suppress(OSError):
            return all(stat.S_ISREG((self.folder / name).lstat().st_mode) for name in names_in(self.folder))
        return False


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What `evaluate` came to, at unix time `t`, with the policy of the checkpoint at `timesteps`: tags and values."""

    file: str
    t: float
    timesteps: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class About:
    """What a run is: its id, name, preset, group, labels, and its settings by dotted name, without what is secret."""

    id: str
    name: str
    preset: str
    group: str | None
    labels: tuple[str, ...]
    settings: Mapping[str, Any]


@dataclass(slots=True)
class News:
    """What is new. `backs`: an attempt began anew behind so many of the points, at these timesteps. `resettled`:
    settings are others than before.

    `ended` is the outcome of the newest attempt, empty while it lives; `seq` and `event` are the last lines read.
    """

    points: list[Point] = field(default_factory=list)
    told: list[FindingNews] = field(default_factory=list)
    saved: list[Saved] = field(default_factory=list)
    played: list[Evaluated] = field(default_factory=list)
    backs: list[tuple[int, int]] = field(default_factory=list)
    resettled: bool = False
    ended: str = ""
    seq: int = 0
    event: int = 0
    behind: bool = False


class NewsReader:
    """Reads the files of `run` behind line `seq` of its metrics and line `event` of its events."""

    def __init__(self, run: RunDir, seq: int = 0, event: int = 0) -> None:
        self._run = run
        self._metrics, self._events = Tail(run.metrics, metrics.MetricRecord), Tail(run.events, FleetEvent)
        self._metrics.slice_bytes = self._events.slice_bytes = SLICE_BYTES
        self._seq, self._event = seq, event
        self._timesteps = 0
        self._ended = ""

    def read(self) -> News:
        """The next slice of both files. Raises `OSError` where one cannot be read."""
        news = News()
        for record in self._metrics.read():
            self._timesteps = getattr(record, "timesteps", self._timesteps)
            if record.seq > self._seq:
                self._seq = record.seq
                self._take(record, news)
        for event in self._events.read():
            if isinstance(event, AttemptStarting):
                self._ended = ""
            elif isinstance(event, AttemptEnded):
                self._ended = outcome_word(event.outcome)
            if event.seq > self._event:
                self._event = event.seq
                self._take_event(event, news)
        news.ended, news.seq, news.event = self._ended, self._seq, self._event
        news.behind = self._metrics.behind or self._events.behind
        self._metrics.damage.clear()
        self._events.damage.clear()
        return news

    def _take(self, record: metrics.MetricRecord, news: News) -> None:
        match record:
            case metrics.TrainingStarted():
                news.resettled = True
                if record.from_timesteps:
                    news.backs.append((len(news.points), record.from_timesteps))
            case metrics.UpdateDone():
                values = {tag: it for tag, value in record.metrics.items() if (it := metrics.number(value)) is not None}
                values["time/steps_per_s"] = record.steps_per_s
                news.points.append(Point(record.seq, record.t, record.timesteps, values))
            case metrics.EvaluationDone():
                said = {metrics.EVAL_RETURN: record.mean, EVAL_STD: record.std, metrics.EVAL_SUCCESS: record.won}
                values = {tag: it for tag, value in said.items() if (it := metrics.number(value)) is not None}
                news.points.append(Point(record.seq, record.t, record.timesteps, values))
            case metrics.CheckpointSaved() if record.reason != "reported" and NAME.fullmatch(record.name):
                news.saved.append(Saved(record.timesteps, self._run.checkpoints / record.name))
            case metrics.SettingsChanged():
                news.resettled = True
            case _:
                pass

    def _take_event(self, event: FleetEvent, news: News) -> None:
        match event:
            case FindingChanged():
                shown = event.finding.evidence[-1] if event.finding.evidence else {}
                at = metrics.number(shown.get("timesteps"))
                news.told.append(FindingNews(event.t, self._timesteps if at is None else int(at), event.finding))
            case SettingsAsked():
                news.resettled = True
            case _:
                pass


def evaluations(run: RunDir, known: Container[str]) -> list[Evaluated]:
    """Results of `evaluate` with the trained policy that are not `known`, by the names of their files."""
    found = []
    names = names_in(run.evaluations) if run.evaluations.is_dir() else []
    for name in sorted(names):
        # Periodic ones are lines of the metrics too.
        if name in known or not name.endswith(".json") or name.endswith("-periodic.json"):
            continue
        try:
            told = json.loads(read_plain(run.evaluations / name, EVALUATION_BYTES))
            t, timesteps, policy = float(told["t"]), int(told["checkpoint"]), told.get("policy", "trained")
            said = {"mean_reward": told["mean"], "std_reward": told["std"], "success_rate": told.get("won")}
            said["episodes"] = told["episodes"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
        values = {f"evaluate/{tag}": it for tag, value in said.items() if (it := metrics.number(value)) is not None}
        if policy == "trained" and values:
            found.append(Evaluated(name, t, timesteps, values))
    return found


def about(run: RunDir) -> About:
    """What the run is now. Raises `MissionError` where its spec cannot be read."""
    (side,) = read_sides([run.path], lambda _: None, (RETURN,))[RETURN]
    view = side.view
    said = effective_settings(side)
    if (engine := side.effective.get("run", {}).get("engine")) is not None:
        said["run.engine"] = engine
    idle = _without_effect(side.spec)
    settings = {name: _redacted(name, value) for name, value in said.items() if not name.startswith(idle)}
    return About(view.id, view.name, view.preset, view.group, tuple(view.labels), settings)


def _without_effect(spec: Spec) -> tuple[str, ...]:
    """How names of settings begin that do nothing in this run: defaults of ours would be taken for the script's own."""
    others = tuple(f"{engine}." for engine in ENGINES if engine != spec.run.launcher)
    if spec.run.command is None:
        return others
    return (*others, "env.", "evaluate.", "keep.checkpoint.", *(f"run.{name}" for name in TRAINERS_OWN))


def _redacted(name: str, value: Any) -> Any:
    """`value`, or stars for what may be a secret: it is on record here, and not for that on somebody's server."""
    if name.startswith(_ENV):
        return value if is_harmless(name.removeprefix(_ENV), str(value)) else _HIDDEN
    if isinstance(value, list | tuple):
        words = iter(masked_words([it for it in value if isinstance(it, str)]))
        return [next(words) if isinstance(it, str) else it for it in value]
    if not isinstance(value, str):
        return value
    return _HIDDEN if is_secret(name.rpartition(".")[2], value) else masked(value)
