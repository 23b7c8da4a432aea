"""One health rule alone: its severities on made-up updates, on rows of its own, and on the outside traces."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from msgspec.structs import fields

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.health.returns import Returns, trend_warm_up
from mission_tui.fleet.health.rule import Explanation, Row, Rule, RuleContext, returns_of, row_of
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.health.usual_settings import LossParts
from mission_tui.fleet.specs.thresholds import Limits

TRACES = Path(__file__).resolve().parents[4] / "shared" / "data" / "traces"
ABSENT = "the traces from outside are not on this machine"
EVENT_TOLERANCE = 50

Incident = tuple[Severity, int, int]
"""The worst severity of a stretch, its first and its last update."""


class SampledRow(Row, frozen=True):
    """A row with the returns and lengths of its episodes."""

    returns: tuple[float, ...] = ()
    lengths: tuple[int, ...] = ()


def sampled_row_of(record: UpdateDone) -> SampledRow:
    """`record` as a row with what the judge tells rules of its episodes beside it."""
    row = row_of(record)
    known = {field.name: getattr(row, field.name) for field in fields(Row)}
    return SampledRow(**known, returns=returns_of(record), lengths=record.episodes.l)


@dataclass(slots=True)
class Watched:
    """What a rule said of each update, and in what words it last changed its mind."""

    severities: list[Severity | None]
    words: list[Explanation]

    @property
    def incidents(self) -> list[Incident]:
        """Stretches of updates with something to say, numbered from 1."""
        found: list[Incident] = []
        for number, severity in enumerate(self.severities, start=1):
            if severity is None:
                continue
            if found and found[-1][2] == number - 1:
                worst = "critical" if "critical" in (severity, found[-1][0]) else severity
                found[-1] = (worst, found[-1][1], number)
            else:
                found.append((severity, number, number))
        return found


def watch(
    kind: type[Rule], rows: Iterable[Row], settings: Settings | None = None, limits: Limits | None = None
) -> Watched:
    """Let a fresh rule of `kind` judge `rows` as the judge would."""
    settings = settings or Settings(total_timesteps=1_000_000, rollout=1000)
    returns = Returns(trend_warm_up(settings.budget), settings.stats_window)
    losses = LossParts(settings)
    rule = kind(RuleContext(settings, limits or Limits(), returns, losses))
    watched, steps = Watched([], []), math.nan
    for row in rows:
        mean = row.metrics.get("rollout/ep_rew_mean")
        if isinstance(row, SampledRow):
            returns.sampled, returns.lengths = row.returns, row.lengths
            returns.newest.update(row.update, mean, row.returns, row.lengths)
        returns.update(mean, row.episodes, ended(row, steps), row.update)
        losses.update(row)
        steps = row.timesteps
        severity = rule.judge(row)
        if severity is not None and severity != (watched.severities[-1] if watched.severities else None):
            watched.words.append(rule.explain(severity))
        watched.severities.append(severity)
    return watched


def ended(row: Row, steps: float) -> float:
    """About how many episodes ended since there were `steps`, as the judge reckons it."""
    length = row.metrics.get("rollout/ep_len_mean", math.nan)
    return (row.timesteps - steps) / length if length > 0.0 and math.isfinite(steps) else 0.0


def rows(returns: Sequence[float], lengths: Sequence[float] | None = None, steps: int = 1000) -> list[Row]:
    """An update for each mean return, with mean lengths where they are given."""
    return [
        Row(
            1,
            number,
            number * steps,
            {"rollout/ep_rew_mean": value} | ({"rollout/ep_len_mean": lengths[number - 1]} if lengths else {}),
        )
        for number, value in enumerate(returns, start=1)
    ]


def bursts(
    levels: Sequence[float], losses: Sequence[float], *, counted: bool = True, gap: int = 20, each: int = 16
) -> list[Row]:
    """`each` environments end their episodes at once every `gap` updates; each such burst returns one of `levels`, give
    or take 4. An update for each value loss, as of a log that counts episodes or does not.
    """
    found: list[Row] = []
    ended: list[float] = []
    for number, loss in enumerate(losses, start=1):
        metrics = {"train/value_loss": loss, "rollout/ep_len_mean": gap * 64.0}
        new: tuple[float, ...] = ()
        if number % gap == 0 and number // gap <= len(levels):
            new = tuple(levels[number // gap - 1] + 4.0 * (place % 3 - 1) for place in range(each))
            ended += new
        if ended:
            metrics["rollout/ep_rew_mean"] = sum(ended[-100:]) / len(ended[-100:])
        steps = number * each * 64
        if counted:
            found.append(SampledRow(1, number, steps, metrics, 0.0, episodes=len(new), returns=new))
        else:
            found.append(Row(1, number, steps, metrics))
    return found


def ending(outcomes: Sequence[dict[str, int]], returns: Sequence[float], steps: int = 1000) -> list[Row]:
    """An update for each set of outcomes and mean return."""
    return [
        Row(
            1,
            number,
            number * steps,
            {"rollout/ep_rew_mean": value, "rollout/ep_len_mean": 50.0},
            episodes=sum(said.values()),
            outcomes=said,
        )
        for number, (said, value) in enumerate(zip(outcomes, returns, strict=True), start=1)
    ]


@cache
def outside(trace: str) -> tuple[Settings, list[Row]]:
    """What is known of an outside trace and its rows, numbered from 1."""
    with (TRACES / f"{trace}.csv").open() as file:
        lines = list(csv.DictReader(file))
    steps = [int(float(line["time/total_timesteps"])) for line in lines if line.get("time/total_timesteps")]
    found = [
        Row(
            1,
            number,
            int(float(line.get("time/total_timesteps") or number)),
            {tag: float(cell) for tag, cell in line.items() if cell and not tag.startswith("time/")},
        )
        for number, line in enumerate(lines, start=1)
    ]
    return Settings(total_timesteps=steps[-1] if steps else None, rollout=steps[0] if steps else None), found


def incidents_on(kind: type[Rule], label: str) -> Iterator[tuple[str, Incident, bool]]:
    """Incidents of `kind` on all traces labelled `label`, and whether each overlaps an event that somebody dated."""
    events: dict[str, list[tuple[int, int]]] = {}
    with (TRACES.parent / "events.csv").open() as file:
        for line in csv.DictReader(file):
            span = int(line["onset_iteration"]) - EVENT_TOLERANCE, int(line["end_iteration"]) + EVENT_TOLERANCE
            events.setdefault(line["trace"], []).append(span)
    with (TRACES.parent / "labels.csv").open() as file:
        traces = [line["trace"] for line in csv.DictReader(file) if line["run_label"] == label]
    for trace in traces:
        settings, found = outside(trace)
        for incident in watch(kind, found, settings).incidents:
            _, first, last = incident
            yield trace, incident, any(first <= end and last >= onset for onset, end in events.get(trace, []))
