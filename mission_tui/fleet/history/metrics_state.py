"""What the rows of a run say: its newest update, its newest checkpoint, and the columns that curves are drawn from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec import Struct, structs

from mission_tui.fleet.events import metrics as facts
from mission_tui.fleet.events.processes import PhaseSeen
from mission_tui.fleet.history.course import ROLLOUT_SUCCESS, Course, GoalView, Scan, StepTime, ValueAtUpdate
from mission_tui.fleet.history.series import Columns
from mission_tui.fleet.specs.quantity import Goal
from mission_tui.fleet.text import clean

POINTS = 60
"""Rows kept of every run, live or ended: what a snapshot's series show."""


MOVED_CHARS = 160


class ViewParts(Struct, frozen=True):
    """The parts of a view that follow from the rows alone."""

    metrics: dict[str, facts.Metric]
    outcomes: dict[str, int]
    series: dict[str, tuple[facts.Metric | None, ...]]
    pace: StepTime | None = None
    course: Course | None = None
    best: ValueAtUpdate | None = None
    goal: GoalView | None = None
    steps_to_goal: tuple[float, float] | None = None


@dataclass(slots=True)
class MetricsState:
    """What `metrics.jsonl` says. `complete` is false while only the end of the file was read.

    `total_timesteps` are those that a command last said it means to reach. `saved_t` is when (unix s) `checkpoint` was
    saved, `evaluated_t` when a periodic evaluation last was done, `evaluation` the newest that counts.
    `outcomes` are those of the last `POINTS` rows, of each in which an episode ended in one, with its update.
    `reward_threshold` is what the environment's registration says, `device` where the newest attempt computes ("" where
    that is not known), `moved` what of the machine is another one since
    the checkpoint that the attempt goes on from. `written_by` is the attempt that wrote line `seq`. `view_parts` is
    what a view made of the rows up to a `seq` for a goal, kept for the next view; `scan` has gone over the first rows,
    and is dropped where they change.

    `trimmed`: only the newest rows are kept of a run that goes on, and `places` are the update and timesteps at moments
    (unix s) before them. `lacking`: what happened since can only be known from all rows, which have to be loaded anew.
    """

    seq: int = 0
    written_by: int = 0
    complete: bool = False
    attempt: int = 0
    seconds: float = 0.0
    row: facts.UpdateDone | None = None
    checkpoint: str | None = None
    saved_t: float | None = None
    evaluated_t: float | None = None
    evaluation: facts.EvaluationDone | None = None
    total_timesteps: int | None = None
    columns: Columns = field(default_factory=Columns)
    sets: list[facts.SettingsChanged] = field(default_factory=list)
    outcomes: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    reward_threshold: float | None = None
    device: str = ""
    moved: tuple[str, ...] = ()
    view_parts: tuple[int, Goal | None, ViewParts] | None = field(default=None, compare=False, repr=False)
    scan: Scan | None = field(default=None, compare=False, repr=False)
    trimmed: bool = False
    lacking: bool = False
    places: dict[float, tuple[int, int]] = field(default_factory=dict)

    @property
    def reached(self) -> tuple[int, int]:
        """How far it has come: the lines of an attempt come after all those of the ones before, whatever their `seq`.

        An attempt on a lost node goes on writing until it sees that it was overtaken: its last lines may stand
        between those of the next one, and have numbers that this one has.
        """
        return self.written_by, self.seq

    def take(self, record: facts.MetricRecord) -> bool:
        """Fold in a line; false for one that was folded before, or that an overtaken attempt wrote late."""
        if (record.attempt, record.seq) <= self.reached:
            return False
        self.written_by, self.seq = record.attempt, record.seq
        _fold(self, record)
        return True

    def scanned(self, goal: Goal | None) -> Scan:
        """The scan of all rows for `goal`."""
        if self.scan is None or self.scan.goal != goal:
            self.scan, self.lacking = Scan(goal), self.lacking or self.trimmed
        self.scan.follow(self.columns)
        return self.scan

    def trim(self, rows: int, goal: Goal | None, moments: Iterable[float]) -> int:
        """Keep the newest `rows` rows of a run that goes on, and what all of them say for `goal`, and where it was at
        `moments` (unix s); how many went. Nothing goes of a run with a share of successes to reach: evaluations tell it
        of rows that are past.
        """
        surplus = len(self.columns) - rows
        if surplus <= 0 or not self.complete or self.lacking or (goal is not None and goal.of == "success"):
            return 0
        self.places |= {t: place for t in moments if (place := self.columns.place_at(t)) is not None}
        self.scanned(goal).forgot(surplus)
        self.columns.keep_last(rows)
        self.trimmed = True
        return surplus

    def place_at(self, t: float) -> tuple[int, int] | None:
        """Update and timesteps of the last row that had ended at unix time `t`; None where that is not known."""
        return self.columns.place_at(t) or self.places.get(t)


def _fold(metrics: MetricsState, record: facts.MetricRecord) -> None:
    """Fold one line of `metrics.jsonl`. An attempt's start drops the later rows of earlier attempts (rewind)."""
    match record:
        case facts.TrainingStarted():
            metrics.device = record.device
            metrics.attempt, metrics.moved = record.attempt, tuple(clean(it, MOVED_CHARS) for it in record.moved[:4])
            if record.reward_threshold is not None:
                metrics.reward_threshold = record.reward_threshold
            if record.checkpoint not in (None, metrics.checkpoint):
                metrics.saved_t = None
            metrics.checkpoint = record.checkpoint or metrics.checkpoint
            if metrics.row is not None and metrics.row.update > record.from_update:
                metrics.lacking = metrics.lacking or metrics.trimmed
                metrics.columns.rewind(record.from_update)
                metrics.scan = None
                metrics.seconds = metrics.columns.trained_s
                metrics.row = metrics.columns.last_row(record.attempt, record.seq)
                metrics.sets = [each for each in metrics.sets if each.update <= record.from_update]
                metrics.outcomes = [entry for entry in metrics.outcomes if entry[0] <= record.from_update]
                if metrics.evaluation is not None and metrics.evaluation.update > record.from_update:
                    metrics.evaluation = None
        case facts.UpdateDone():
            if metrics.row is None or record.update > metrics.row.update:
                metrics.row = record
                metrics.total_timesteps = record.total_timesteps or metrics.total_timesteps
                metrics.columns.append(record)
                phases_s = record.rollout_s + record.update_s
                metrics.seconds = metrics.seconds + phases_s if record.trained_s is None else record.trained_s
                if record.episodes.outcomes:
                    metrics.outcomes.append((record.update, record.episodes.outcomes))
                while metrics.outcomes and metrics.outcomes[0][0] < metrics.columns.first_of_last(POINTS):
                    del metrics.outcomes[0]
        case facts.SettingsChanged():
            metrics.sets.append(record)
        case facts.EvaluationDone():
            if metrics.scan is not None and metrics.scan.goal is not None and metrics.scan.goal.of == "success":
                metrics.scan = None  # the row of it may have been scanned
            for tag, value in facts.evaluated(record).items():
                metrics.columns.annotate(record.update, tag, value)
            metrics.evaluated_t, metrics.evaluation = record.t, record
        case facts.CheckpointSaved():
            metrics.checkpoint, metrics.saved_t = record.name, record.t
        case facts.TrainingEnded():
            metrics.checkpoint = record.checkpoint or metrics.checkpoint


_OF_COURSE = (facts.RETURN, ROLLOUT_SUCCESS)


def course_rows(records: Iterable[facts.MetricRecord]) -> MetricsState:
    """What `records`, the whole of a `metrics.jsonl`, say of the return: no other series is kept, so that the longest
    run takes little."""
    whole = MetricsState()
    for record in records:
        if isinstance(record, facts.UpdateDone):
            kept = {name: record.metrics[name] for name in _OF_COURSE if name in record.metrics}
            whole.take(structs.replace(record, metrics=kept))
        else:
            whole.take(record)
    return whole


def phase_before(row: facts.UpdateDone, moment: float) -> PhaseSeen:
    """The phase at `moment` of the update that ends with `row`, the first row after it; None before its rollout."""
    update_t = row.t - row.update_s
    rollout_t = update_t - row.rollout_s
    if moment >= update_t:
        return PhaseSeen("update", update_t)
    return PhaseSeen("rollout", rollout_t) if moment >= rollout_t else PhaseSeen(None, moment)
