"""What a training log comes to, whatever its format: records, and what they betray of the settings behind them.

What the rows do not say stays unknown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import Struct, field, structs
from msgspec.structs import replace

from mission_tui.errors import UsageError
from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.fleet.events.metrics import Episodes, MetricRecord, UpdateDone, number
from mission_tui.fleet.health import Settings
from mission_tui.fleet.health.settings import TELLING, RecognizedAlgorithm, recognize_algorithm
from mission_tui.fleet.specs.spec import Schedule, Spec

_DIGITS = 6
"""Event files hold single precision: 0.0003 comes back as 0.0003000000142492354."""

_OFF_THE_LINE = 0.02
_COMMON = 0.1


_LONGEST_LINE = 1 << 20

Text = TypeVar("Text", str, bytes, covariant=True)


class LogError(UsageError):
    """A file that was named as a training log cannot be read as one."""


class _Lines(Protocol[Text]):
    def readline(self, size: int, /) -> Text: ...


def lines_of(file: _Lines[Text], path: Path) -> Iterator[Text]:
    """The lines of `file`, which is that at `path`. Raises `LogError` for one so long that no log has it."""
    while line := file.readline(_LONGEST_LINE + 1):
        if len(line) > _LONGEST_LINE:
            raise LogError(f"{path}: is not a training log: it has a line of more than {_LONGEST_LINE >> 20} MiB")
        yield line


class TableRow(Struct, frozen=True):
    """One row of a table-like log: the numbers that were written (blank cells are absent), NaN and infinities included.

    `t` is unix time, 0 where no clock was written. `elapsed_digit_s` is the worth of the last digit that was written of
    `time/time_elapsed`.
    """

    cells: Mapping[str, float]
    t: float = 0.0
    elapsed_digit_s: float = 1.0
    episodes: Episodes = field(default_factory=Episodes)


class TrainingLog(Struct, frozen=True):
    """One log. A run of ours brings the spec of each attempt, its journal, and when attempts died (unix s); any other
    log has no specs, and `settings` is all that is known. `damage` says what in it could not be used.

    `log_interval` is how many updates there are for each row that was written, None where they are several and the log
    does not say how many.
    """

    path: Path
    records: tuple[MetricRecord, ...]
    settings: Settings
    specs: Mapping[int, Spec] = field(default_factory=dict)
    events: tuple[FleetEvent, ...] = ()
    died: Mapping[int, float] = field(default_factory=dict)
    damage: tuple[str, ...] = ()
    log_interval: int | None = 1

    @property
    def updates(self) -> int:
        """How many updates it tells of."""
        return len(self.updates_done)

    @property
    def updates_done(self) -> tuple[UpdateDone, ...]:
        """The updates among its records."""
        return tuple(record for record in self.records if isinstance(record, UpdateDone))


def recognize_in_rows(updates: Iterable[UpdateDone]) -> RecognizedAlgorithm | None:
    """Which algorithm wrote the log, and the tag that says so; None for returns alone, which any may have written."""
    return recognize_algorithm({tag for update in updates for tag in update.metrics if tag in TELLING})


def by_row(log: TrainingLog) -> TrainingLog:
    """`log` with a number for each of its rows where a row tells of several updates: what rules count are rows.

    The same training may have been logged with iterations and without, so what only one of them says, the rollout, is
    not known then.
    """
    if log.log_interval == 1:
        return log
    many = log.log_interval or 1
    records = tuple(
        structs.replace(record, update=math.ceil(record.update / many)) if isinstance(record, UpdateDone) else record
        for record in log.records
    )
    return replace(log, records=records, settings=replace(log.settings, rollout=None))


def settings_in(updates: Sequence[UpdateDone]) -> Settings:
    """Clip range and learning rate from their columns, the rollout from the steps between rows, the total from the last
    row, and the epochs from SB3's counter of them.
    """
    rates = [(row.timesteps, rate) for row in updates if (rate := _finite(row, "train/learning_rate")) is not None]
    clip = next((clip for row in updates if (clip := _finite(row, "train/clip_range")) is not None), None)
    settings = Settings(
        total_timesteps=max((row.timesteps for row in updates), default=0) or None,
        rollout=_rollout(updates),
        learning_rate=_learning_rate(rates),
        n_epochs=_epochs(updates),
    )
    return settings if clip is None else replace(settings, clip_range=_cut(clip))


def _finite(row: UpdateDone, tag: str) -> float | None:
    value = number(row.metrics.get(tag))
    return value if value is not None and math.isfinite(value) else None


def _rollout(updates: Sequence[UpdateDone]) -> int | None:
    """The most common difference of steps between updates; of a single row, its steps."""
    gaps = Counter(
        (later.timesteps - earlier.timesteps) // (later.update - earlier.update)
        for earlier, later in pairwise(updates)
        if later.timesteps > earlier.timesteps and later.attempt == earlier.attempt
    )
    if gaps:
        return gaps.most_common(1)[0][0] or None
    return updates[0].timesteps // max(1, updates[0].update) or None if updates else None


def _learning_rate(rates: Sequence[tuple[int, float]]) -> float | Schedule | None:
    """A number where it never changes, a schedule where it lies on a line over the steps, else unknown."""
    if not rates:
        return None
    (first_steps, first), (last_steps, last) = rates[0], rates[-1]
    if all(_cut(rate) == _cut(first) for _, rate in rates):
        return _cut(first)
    if last_steps <= first_steps or min(first, last) < 0.0:
        return None
    slope = (last - first) / (last_steps - first_steps)
    straight = all(
        abs(first + slope * (steps - first_steps) - rate) <= _OFF_THE_LINE * max(first, last) for steps, rate in rates
    )
    return Schedule(start=_cut(first), end=_cut(last)) if straight else None


def _epochs(updates: Sequence[UpdateDone]) -> int | None:
    """The largest common step of `train/n_updates`: `target_kl` makes some smaller, a lost row makes one larger."""
    counts = [(row.update, count) for row in updates if (count := _finite(row, "train/n_updates")) is not None]
    steps = Counter(
        round((count - before) / (update - earlier))
        for (earlier, before), (update, count) in pairwise(counts)
        if count > before and update > earlier
    )
    return max((step for step, times in steps.items() if step and times >= _COMMON * steps.total()), default=None)


def _cut(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
