"""What a training log comes to, whatever its format: records, and what is known of the settings behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mission_tui.errors import UsageError
from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.fleet.events.metrics import Episodes, MetricRecord, UpdateDone
from mission_tui.fleet.health import Settings
from mission_tui.fleet.specs.spec import Spec

__all__ = ["LogError", "TableRow", "TrainingLog"]


class LogError(UsageError):
    """A file that was named as a training log cannot be read as one."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table-like log: the numbers that were written (blank cells are absent), NaN and infinities included.

    `t` is unix time, 0 where no clock was written. `elapsed_digit_s` is the worth of the last digit that was written of
    `time/time_elapsed`.
    """

    cells: Mapping[str, float]
    t: float = 0.0
    elapsed_digit_s: float = 1.0
    episodes: Episodes = field(default_factory=Episodes)


@dataclass(frozen=True, slots=True)
class TrainingLog:
    """One log. A run of ours brings the spec of each attempt, its journal, and when attempts died (unix s); any other
    log has no specs, and `settings` is all that is known. `damage` says what in it could not be used.
    """

    path: Path
    records: tuple[MetricRecord, ...]
    settings: Settings
    specs: Mapping[int, Spec] = field(default_factory=dict)
    events: tuple[FleetEvent, ...] = ()
    died: Mapping[int, float] = field(default_factory=dict)
    damage: tuple[str, ...] = ()

    @property
    def updates(self) -> int:
        """How many updates it tells of."""
        return len(self.updates_done)

    @property
    def updates_done(self) -> tuple[UpdateDone, ...]:
        """The updates among its records."""
        return tuple(record for record in self.records if isinstance(record, UpdateDone))
