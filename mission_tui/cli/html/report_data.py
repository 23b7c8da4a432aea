"""What a report says: the comparison that `compare` prints, what is drawn and marked, and of each run its details, what
it differs in from its preset, and what was done about its findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from mission_tui.cli.html.charts import Mark
from mission_tui.errors import MissionError
from mission_tui.fleet.compare import RETURN, Axis, Comparison, Drawing, Side, compare, drawing_of, letter
from mission_tui.fleet.events.findings import Finding, stories
from mission_tui.fleet.text import clean
from mission_tui.present.run_settings import OF_A_COMMAND, differing
from mission_tui.records.runs.comparison_sides import read_sides

if TYPE_CHECKING:
    from mission_tui.fleet.specs.spec import Spec
    from mission_tui.ipc.replies import AuditEntry, DetailsReply

METRICS = (
    RETURN,
    "eval/mean_reward",
    "rollout/success_rate",
    "rollout/ep_len_mean",
    "train/approx_kl",
    "train/clip_fraction",
    "policy/entropy_ratio",
    "train/explained_variance",
    "train/value_loss",
    "train/learning_rate",
    "steps_per_s",
)
"""What is drawn where nobody chose, as far as the runs have it."""

ALL_POINTS = 24_000
"""Points of all curves of a report together, at most: about a megabyte."""

_FEWEST, _MOST, _MARKED_RUNS, _MARKS, _MOST_DONE = 24, 400, 4, 40, 8

PresetOf = Callable[[str], "Spec"]


@dataclass(frozen=True, slots=True)
class AgainstPreset:
    """Settings that are not those of preset `name` as it is now, of so many `known`; or why that is not known."""

    name: str
    rows: Sequence[tuple[str, str | None, str | None]] = ()
    known: int = 0
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """One run: its letter, all that is known of it, and what its settings differ in from its preset."""

    letter: str
    details: DetailsReply
    against: AgainstPreset | None


@dataclass(frozen=True, slots=True)
class Report:
    """`marks` are by run; empty where there are too many runs to tell theirs apart."""

    found: Comparison
    drawings: Sequence[Drawing]
    runs: Sequence[ReportedRun]
    marks: Sequence[Mark]


def read_report(
    details: Sequence[DetailsReply],
    preset_of: PresetOf,
    say: Callable[[str], None],
    metrics: Sequence[str],
    by: Axis,
    threshold: float | None,
) -> Report:
    """The report of the runs in `details`; `say` hears of damage in their files. `metrics`: none are the usual ones.

    Raises `UsageError` for a metric that none of them has, `MissionError` where no run can be read.
    """
    sides = read_sides([Path(each.view.run_dir) for each in details], say, metrics or METRICS)
    read = {side.view.id for side in next(iter(sides.values()))}
    known = [each for each in details if each.view.id in read]
    return report_of(known, sides, preset_of, chosen=bool(metrics), by=by, threshold=threshold)


def report_of(
    details: Sequence[DetailsReply],
    sides: Mapping[str, Sequence[Side]],
    preset_of: PresetOf,
    *,
    chosen: bool = False,
    by: Axis = "step",
    threshold: float | None = None,
) -> Report:
    """The same of `sides`, by metric; those that nobody has `chosen` are drawn only if there is something to see."""
    first = next(iter(sides))
    found = compare(sides[first], first, by, threshold, least=1)
    drawn = [(metric, its) for metric, its in sides.items() if chosen or metric == first or _moves(its)]
    whole = [_with_changes(each, side) for each, side in zip(details, sides[first], strict=True)]
    runs = [ReportedRun(letter(place), each, _against(each, preset_of)) for place, each in enumerate(whole)]
    return Report(
        found=found,
        drawings=[_drawing(metric, its, found, len(drawn)) for metric, its in drawn],
        runs=runs,
        marks=[mark for run in runs for mark in _marks(run)] if by == "step" and len(runs) <= _MARKED_RUNS else [],
    )


def _with_changes(details: DetailsReply, side: Side) -> DetailsReply:
    """What was set while it trained is read from all rows: a supervisor may have the last of them alone."""
    return structs.replace(details, view=structs.replace(details.view, changes=side.view.changes))


def _moves(sides: Sequence[Side]) -> bool:
    """Whether there is a curve to see: one value in all rows of every run is a setting."""
    return any(len(set(side.trace.values)) > 1 for side in sides)


def _drawing(metric: str, sides: Sequence[Side], found: Comparison, drawings: int) -> Drawing:
    curves = drawings * (len(sides) + len(found.cohorts))
    points = max(_FEWEST, min(_MOST, ALL_POINTS // curves))
    threshold = found.threshold if metric == found.metric else None
    return drawing_of(sides, metric, found.by, threshold, "quartiles", points=points, extremes=True)


def _against(details: DetailsReply, preset_of: PresetOf) -> AgainstPreset | None:
    name = details.view.preset
    if name == OF_A_COMMAND or not name:
        return None
    if "/" in name or name.endswith(".toml"):
        # No preset is called so, and whoever wrote the run's spec would choose which file of ours stands in the page.
        return AgainstPreset(name, trouble=f"'{name}' names a file, and no preset")
    try:
        spec = preset_of(name)
    except MissionError as error:
        return AgainstPreset(name, trouble=str(error))
    rows, known = differing((details.spec, details.effective), (spec, {}), runs=False)
    return AgainstPreset(name, rows, known)


def _marks(run: ReportedRun) -> Iterator[Mark]:
    """Findings that asked for something, settings that were changed, and resumes, where they stand on the axis."""
    marks = [
        Mark(float(place), "finding", finding.sentence, run.letter)
        for finding in stories(run.details.view.findings)
        if finding.severity != "info" and (place := place_of(finding, run.details)) is not None
    ]
    marks += [
        Mark(float(change.timesteps), "set", "; ".join(change.diff), run.letter)
        for change in run.details.view.changes
        if change.timesteps is not None
    ]
    marks += [
        Mark(float(attempt.from_timesteps), "resume", f"attempt {attempt.attempt} begins", run.letter)
        for attempt in run.details.attempts
        if attempt.from_timesteps
    ]
    yield from sorted(marks, key=lambda mark: mark.place)[:_MARKS]


def place_of(finding: Finding, details: DetailsReply) -> int | None:
    """The timesteps at which it began: those of its evidence, else as many an update as the run has on average."""
    for row in finding.evidence:
        update, steps = row.get("update"), row.get("timesteps")
        if update == finding.first_update and isinstance(steps, float | int):
            return int(steps)
    view = details.view
    if not view.update or view.timesteps is None:
        return None
    return round(finding.first_update * view.timesteps / view.update)


def done_about(finding: Finding, entries: Sequence[AuditEntry]) -> list[AuditEntry]:
    """Of what was done to a run, what was done because of `finding`, or by its rule while it lasted; the first few."""
    return list(islice(_done_about(finding, entries), _MOST_DONE))


def _done_about(finding: Finding, entries: Sequence[AuditEntry]) -> Iterator[AuditEntry]:
    by_rule = clean(f"rule {finding.rule}")
    for entry in entries:
        named = finding.id in entry.detail.split() or entry.detail == finding.rule
        lasted = finding.first_t <= entry.t <= finding.last_t + 60.0
        if named or (entry.by == by_rule and lasted):
            yield entry
