"""What the rows of a run say: its newest update, its newest checkpoint, and the columns that curves are drawn from."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from mission_tui.fleet.history.metrics import (
    CheckpointSaved,
    EvaluationDone,
    Metric,
    MetricRecord,
    SettingsChanged,
    TrainingEnded,
    TrainingStarted,
    UpdateDone,
)
from mission_tui.fleet.history.series import Columns

__all__ = ["POINTS", "Drawn", "Trained", "fold_record"]

POINTS = 60
"""Rows kept of every run, live or ended: what a snapshot's series show."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The parts of a view that follow from the rows alone."""

    metrics: dict[str, Metric]
    outcomes: dict[str, int]
    series: dict[str, tuple[Metric | None, ...]]


@dataclass(slots=True)
class Trained:
    """What `metrics.jsonl` says. `complete` is false while only the end of the file was read.

    `saved_t` is when (unix s) `checkpoint` was saved, `evaluated_t` when a periodic evaluation last was done. `drawn`
    is what a view made of the rows up to a `seq`, kept for the next view.
    """

    seq: int = 0
    complete: bool = False
    attempt: int = 0
    seconds: float = 0.0
    row: UpdateDone | None = None
    checkpoint: str | None = None
    saved_t: float | None = None
    evaluated_t: float | None = None
    columns: Columns = field(default_factory=Columns)
    sets: list[SettingsChanged] = field(default_factory=list)
    outcomes: deque[tuple[int, dict[str, int]]] = field(default_factory=lambda: deque(maxlen=POINTS))
    drawn: tuple[int, Drawn] | None = field(default=None, compare=False, repr=False)


def fold_record(trained: Trained, record: MetricRecord) -> None:
    """Fold one line of `metrics.jsonl`. An attempt's start drops the later rows of earlier attempts (rewind)."""
    match record:
        case TrainingStarted():
            trained.attempt = record.attempt
            if record.checkpoint not in (None, trained.checkpoint):
                trained.saved_t = None
            trained.checkpoint = record.checkpoint or trained.checkpoint
            if trained.row is not None and trained.row.update > record.from_update:
                trained.columns.rewind(record.from_update)
                trained.seconds = trained.columns.total("rollout_s") + trained.columns.total("update_s")
                trained.row = trained.columns.last_row(record.attempt, record.seq)
                trained.sets = [each for each in trained.sets if each.update <= record.from_update]
                kept = [entry for entry in trained.outcomes if entry[0] <= record.from_update]
                trained.outcomes = deque(kept, maxlen=POINTS)
        case UpdateDone():
            if trained.row is None or record.update > trained.row.update:
                trained.row = record
                trained.columns.append(record)
                trained.seconds += record.rollout_s + record.update_s
                trained.outcomes.append((record.update, record.episodes.outcomes))
        case SettingsChanged():
            trained.sets.append(record)
        case EvaluationDone():
            trained.columns.annotate(record.update, "eval/mean_reward", record.mean)
            trained.evaluated_t = record.t
        case CheckpointSaved():
            trained.checkpoint, trained.saved_t = record.name, record.t
        case TrainingEnded():
            trained.checkpoint = record.checkpoint or trained.checkpoint
