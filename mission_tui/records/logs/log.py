"""What a training log comes to, whatever its format: records, and what they betray of the settings behind them. What
the rows do not say stays unknown.

Of table-like logs (TensorBoard's too) the way from rows to updates; and SB3's `progress.csv` and `progress.json`,
columns by tag in the order of the file. Blank is not logged, and only the word nan is NaN. A header that comes again
(two programs wrote one file) may bring other columns; a last line that was cut short gives what is whole of it. A table
of the plainest kind, a column of steps and one of mean returns, is read by the names that people and other frameworks
give these; cells may be apart by commas, semicolons (then with commas for points) or tabs.

SB3 writes what an update did with the rollout that follows it, and an evaluation in between takes that with it: its row
then belongs to the same update as the next. Numbers keep the update under which the log shows them.
"""

from __future__ import annotations

import csv
import math
import os
import re
import statistics
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from mission_tui.errors import UsageError
from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.fleet.events.metrics import RETURN, Episodes, MetricRecord, UpdateDone, number, spoken
from mission_tui.fleet.health import Settings
from mission_tui.fleet.health.settings import TELLING, RecognizedAlgorithm, recognize_algorithm
from mission_tui.fleet.specs.spec import Schedule, Spec
from mission_tui.plain_files import open_named

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
        replace(record, update=math.ceil(record.update / many)) if isinstance(record, UpdateDone) else record
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


LOGGED = ("rollout/", "train/", "policy/", "eval/")
"""Families of tags that are metrics; `time/` says where a row stands."""

ITERATION, STEPS, ELAPSED = "time/iterations", "time/total_timesteps", "time/time_elapsed"
SPEED = "time/fps"
_COARSEST = 0.05
_MOST = 2**53


def updates_of(rows: Iterable[TableRow]) -> tuple[UpdateDone, ...]:
    """One record per update, in order; rows that say nothing of training are left out, repeated ones count once.

    Where steps go back (a log that was appended to), a new attempt begins and updates are counted on. Where iterations
    alone begin anew, `learn` was called again with the same steps, and the training went on.
    """
    rows = list(rows)
    joined = _joined([row for row in rows if _is_logged(row)])
    speeds = _speeds(joined)
    records: list[UpdateDone] = []
    attempt, before, last = 1, 0, _rollouts_before(rows)
    for row, speed in zip(joined, speeds, strict=True):
        iteration = _whole(row.cells.get(ITERATION)) or last + 1
        steps = _whole(row.cells.get(STEPS)) or 0
        if iteration <= last and records[-1].timesteps == steps:
            continue
        anew = iteration <= last
        if anew or (records and ITERATION not in row.cells and steps < records[-1].timesteps):
            attempt += not anew or steps < records[-1].timesteps
            before, last = before + last, 0
            iteration = iteration if ITERATION in row.cells else 1
        last = iteration
        metrics = {tag: spoken(value) for tag, value in row.cells.items() if tag.startswith(LOGGED)}
        records.append(
            UpdateDone(
                seq=len(records) + 1,
                attempt=attempt,
                update=before + iteration,
                timesteps=steps,
                t=row.t,
                rollout_s=0.0,
                update_s=0.0,
                steps_per_s=speed,
                metrics=metrics,
                episodes=row.episodes,
            )
        )
    return tuple(records)


def _is_logged(row: TableRow) -> bool:
    return any(tag.startswith(LOGGED) for tag in row.cells)


def _rollouts_before(rows: Sequence[TableRow]) -> int:
    """How many rows of nothing but their speed, in which no episode ended, come before those that say something; of a
    log without iterations, where rows are counted.
    """
    if any(ITERATION in row.cells for row in rows):
        return 0
    return sum(SPEED in row.cells for row in takewhile(lambda row: not _is_logged(row), rows))


def log_interval(rows: Sequence[TableRow], updates: Sequence[UpdateDone]) -> int | None:
    """How many updates there are for a row: SB3's `log_interval`; None where they are several, and not known how many.

    SB3 writes what an update did with the rollout after it, so that in its first row, written after several, there is
    an update already. Iterations tell how many; its TensorBoard files have none. There the first row may have nothing
    but the speed, as where no episode has ended yet.
    """
    if any(ITERATION in row.cells for row in rows):
        gaps = Counter(later.update - earlier.update for earlier, later in pairwise(updates))
        return gaps.most_common(1)[0][0] if gaps else 1
    timed = next((row.cells for row in rows if SPEED in row.cells), None)
    first = timed if timed is not None else updates[0].metrics if updates else {}
    return None if "train/loss" in first and any(tag.startswith("rollout/") for tag in first) else 1


def complete_rows(rows: Sequence[TableRow]) -> list[TableRow]:
    """Those of a log that still grows which no later row will be joined with: an evaluation's waits for the next."""
    counted = any(ITERATION in row.cells for row in rows)
    rolled = any(_of_rollout(row) for row in rows)
    end = len(rows)
    while end and (ITERATION not in rows[end - 1].cells if counted else rolled and not _of_rollout(rows[end - 1])):
        end -= 1
    return list(rows[:end])


def _joined(rows: Sequence[TableRow]) -> list[TableRow]:
    """Each evaluation's row and the next one as a single row; of a number in both, the later counts."""
    counted = any(ITERATION in row.cells for row in rows)
    rolled = any(_of_rollout(row) for row in rows)
    whole: list[TableRow] = []
    waiting: TableRow | None = None
    for written in rows:
        row = written if waiting is None else replace(written, cells={**waiting.cells, **written.cells})
        evaluation = any(tag.startswith("eval/") for tag in row.cells)
        partial = ITERATION not in row.cells if counted else evaluation and rolled and not _of_rollout(row)
        waiting = row if partial else None
        if not partial:
            whole.append(row)
    if waiting is not None and any(tag.startswith("train/") for tag in waiting.cells):
        whole.append(waiting)
    return whole


def _of_rollout(row: TableRow) -> bool:
    return any(tag.startswith("rollout/") for tag in row.cells)


def _speeds(rows: Sequence[TableRow]) -> list[float]:
    """Steps per second of each row since the one before; 0 where it is not known.

    The clock of the rows counts, else `time/time_elapsed`, but only where its last digit is small beside an update:
    whole seconds would make speeds of rounding. `time/fps` is an average since the start and says nothing of now.
    """
    clock = [row.t for row in rows]
    if not all(clock):
        clock = [row.cells.get(ELAPSED, math.nan) for row in rows]
        gaps = [later - earlier for earlier, later in pairwise(clock) if later > earlier]
        coarsest = max((row.elapsed_digit_s for row in rows if ELAPSED in row.cells), default=math.inf)
        if not gaps or coarsest > _COARSEST * statistics.median(gaps):
            return [0.0] * len(rows)
    speeds = [0.0] if rows else []
    for (earlier, later), (before, after) in zip(pairwise(rows), pairwise(clock), strict=True):
        steps = later.cells.get(STEPS, math.nan) - earlier.cells.get(STEPS, math.nan)
        seconds = after - before
        speeds.append(steps / seconds if steps > 0.0 and seconds > 0.0 and math.isfinite(steps / seconds) else 0.0)
    return speeds


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and math.isfinite(value) and 0.0 <= value <= _MOST else None


_WALL_TIME = "wall_time"
_WHERE = "time/"
_COUNTED = (*LOGGED, _WHERE)


_STEPS = (
    "num_env_steps_sampled_lifetime", "timesteps_total",  # RLlib's
    "totalenvinteracts", "totalenvsteps",  # Spinning Up's, garage's
    "total_timesteps", "timesteps", "timestep", "global_step", "env_steps", "env_step", "steps", "step",
)  # fmt: skip
_RETURNS = (
    "env_runners/episode_return_mean", "env_runners/episode_reward_mean", "episode_reward_mean",
    "averageepret", "evaluation/averagereturn",
    "ep_rew_mean", "mean_reward", "mean_return", "avg_reward", "average_reward", "episode_reward", "episode_return",
    "episodic_return", "reward", "return",
)  # fmt: skip
_DELIMITERS = ",;\t"
_GOES_BACK = 0.2
"""Of its rows: not even a log of many trainings goes back so often."""


def delimiter_of(line: str) -> str | None:
    """What stands between the columns that `line` names; None where it names none of a training log."""
    named: dict[str, int] = {}
    for delimiter in _DELIMITERS:
        with suppress(csv.Error, StopIteration):
            cells = next(csv.reader([line], delimiter=delimiter))
            if is_header(cells):
                named[delimiter] = len(cells)
    return max(named, key=named.__getitem__, default=None)


def log_of_rows(path: Path, rows: Iterable[TableRow], damage: list[str]) -> TrainingLog:
    """The log whose rows `rows` are; `damage` is what was found wrong once they are all read."""
    written = list(rows)
    updates = updates_of(written)
    more = f" ({len(damage) - 1} more lines like it)" if len(damage) > 1 else ""
    return TrainingLog(
        path,
        updates,
        settings_in(updates),
        damage=tuple(f"{it}{more}" for it in damage[:1]),
        log_interval=log_interval(written, updates),
    )


def check_steps(path: Path, rows: Sequence[TableRow]) -> None:
    """Raise `LogError` where a plain list of returns counts each episode's steps, not those since the start."""
    if any(tag not in (STEPS, RETURN) for row in rows for tag in row.cells):
        return
    steps = [row.cells[STEPS] for row in rows if STEPS in row.cells]
    back = sum(later < earlier for earlier, later in pairwise(steps))
    if back > _GOES_BACK * len(steps):
        raise LogError(
            f"{path}: its steps go back in {back} of {len(steps)} rows, as where they are the length of each episode; "
            "a column of all steps since the start is wanted, such as timestep"
        )


def is_header(cells: Iterable[str]) -> bool:
    """Whether `cells` name the columns of a training log."""
    return any(name.startswith(LOGGED) for name in _names(cells))


_PANEL = re.compile(rf"(.*\S) - ((?:{'|'.join(LOGGED)})\S+?)(__MIN|__MAX)?")
"""A column of a chart that W&B exported: the run, its metric, and whether it is the least or most of several rows."""

_OF_WANDB = {"global_step": STEPS, "_timestamp": _WALL_TIME}
_OF_OURS = {"update": ITERATION, "timesteps": STEPS, "t": _WALL_TIME}
"""Of `metrics --csv`; a run that was passed on to W&B comes from there with its `timesteps` and W&B's clock."""


def _runs_of_panel(cells: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(found[1] for cell in cells if (found := _PANEL.fullmatch(cell.strip()))))


def _names(cells: Iterable[str]) -> list[str]:
    """The columns, of a plain list of returns, and of what W&B exports, by SB3's names."""
    written = [cell.strip().strip('"') for cell in cells]
    panel = [_PANEL.fullmatch(name) for name in written]
    names = [found[2] if found and not found[3] else name for found, name in zip(panel, written, strict=True)]
    if any(name.startswith(LOGGED) for name in names):
        own = {"update", "attempt", "timesteps"} <= set(names)
        others = _OF_OURS if own else _OF_WANDB if "global_step" in names else _OF_WANDB | {"timesteps": STEPS}
        known = {other: ours for other, ours in others.items() if other in names and ours not in names}
        return [known.get(name, name) for name in names]
    plain = [name.lower() for name in names]
    steps, returns = (next((it for it in known if it in plain), None) for known in (_STEPS, _RETURNS))
    if steps is None or returns is None:
        return names
    ours = {steps: STEPS, returns: RETURN}
    return [ours.get(name, name) for name in plain]


def read_csv(path: Path, damage: list[str]) -> Iterator[TableRow]:
    """The rows of the CSV at `path`. Raises `LogError` when it has no column of a training log."""
    return _rows_of(path, _lines_of_csv(path, damage), damage)


def _lines_of_csv(path: Path, damage: list[str]) -> Iterator[dict[str, str]]:
    columns: list[str] = []
    run = ""
    with os.fdopen(open_named(path), encoding="utf-8-sig", errors="replace", newline="") as file:
        delimiter = delimiter_of(next(lines_of(file, path), "")) or ","
        file.seek(0)
        lines = csv.reader((line.replace("\0", "") for line in lines_of(file, path)), delimiter=delimiter)
        while (cells := _next(lines, path)) is not None:
            if delimiter == ";":
                cells = [cell.replace(",", ".") for cell in cells]
            if is_header(cells):
                columns = _names(cells)
                if len(runs := _runs_of_panel(cells)) > 1:
                    raise LogError(
                        f"{path}: a chart of {len(runs)} runs ({', '.join(runs[:3])}), and judge takes one: "
                        "export each by itself, or all of a run: wandb.Api().run(PATH).history(10**6).to_csv(FILE)"
                    )
                twice = next(
                    (it for it, many in Counter(columns).items() if many > 1 and it.startswith(_COUNTED)), None
                )
                if twice is not None:
                    many = f"several columns are called {cells[columns.index(twice)]!r:.60}"
                    damage.append(f"{path.name} line {lines.line_num}: {many}, of which the last counts")
            elif not columns:
                raise LogError(f"{path}: its first line names no column of a training log, such as train/approx_kl")
            elif cells:
                if len(cells) > len(columns):
                    damage.append(f"{path.name} line {lines.line_num}: {len(cells)} cells under {len(columns)} columns")
                # The last cell of a line that was cut short may be half a number.
                whole = cells if len(cells) >= len(columns) else cells[:-1]
                row = dict(zip(columns, whole, strict=False))
                run = run or row.get("run", "")
                if "attempt" in row and row.get("run", run) != run:
                    raise LogError(f"{path}: holds several runs ({run}, ...), and judge takes one: judge their folders")
                yield row


def read_json(path: Path, damage: list[str]) -> Iterator[TableRow]:
    """The rows of the JSON lines at `path`; lines that are no object are skipped and reported."""
    return _rows_of(path, _lines_of_json(path, damage), damage)


def _lines_of_json(path: Path, damage: list[str]) -> Iterator[dict[str, str]]:
    with os.fdopen(open_named(path), "rb") as file:
        for line_number, line in enumerate(lines_of(file, path), 1):
            if not line.strip():
                continue
            try:
                row = msgspec.json.decode(_named_nan(line.removeprefix(BOM_UTF8)), type=dict[str, object])
            except (msgspec.DecodeError, RecursionError):
                damage.append(f"{path.name} line {line_number}: not a JSON object; it was skipped")
                continue
            flat = {name: it for key, value in row.items() for name, it in _flattened(key, value)}
            yield dict(zip(_names(flat), map(_text, flat.values()), strict=True))


def _flattened(key: str, value: object) -> Iterable[tuple[str, object]]:
    """RLlib's `{"env_runners": {"episode_return_mean": 1}}` under the name that its table has."""
    if isinstance(value, dict):
        return ((f"{key}/{name}", it) for name, it in value.items())
    return ((key, value),)


def _next(lines: Iterator[list[str]], path: Path) -> list[str] | None:
    try:
        return next(lines, None)
    except csv.Error as error:
        raise LogError(f"{path}: cannot be read as CSV: {error}") from None


def _rows_of(path: Path, lines: Iterable[Mapping[str, str]], damage: list[str]) -> Iterator[TableRow]:
    """The rows of `lines`; of a column that is known and holds words alone it is said that it counts for nothing."""
    numbers: set[str] = set()
    words: dict[str, str] = {}
    for written in lines:
        row = _row(written)
        yield row
        numbers.update(row.cells)
        for tag, text in written.items():
            if tag not in numbers and tag not in words and tag.startswith(_COUNTED) and text.strip():
                words[tag] = text
    for tag, text in words.items():
        if tag not in numbers:
            damage.append(f"{path.name}: no number stands under {tag}, but {text!r:.40}: the column counts for nothing")


def _row(written: Mapping[str, str]) -> TableRow:
    cells = {
        tag: value for tag, text in written.items() if tag.startswith(_COUNTED) and (value := _value(text)) is not None
    }
    return TableRow(cells, _value(written.get(_WALL_TIME, "")) or 0.0, _last_digit(written.get(ELAPSED, "")))


def _value(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _last_digit(text: str) -> float:
    """The worth of the last digit of a number as it was written: 1 for `801`, 0.01 for `1.07`, 10 for `1.23e+03`."""
    mantissa, _, exponent = text.strip().lower().partition("e")
    try:
        return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    except (ValueError, OverflowError):
        return 1.0


def _text(value: object) -> str:
    return "" if value is None or isinstance(value, bool | dict | list) else str(value)


def _named_nan(line: bytes) -> bytes:
    """`line` with the bare words that Python's encoder writes and JSON does not know as strings."""
    if b"NaN" not in line and b"Infinity" not in line:
        return line
    for word in (b"NaN", b"-Infinity", b"Infinity"):
        line = line.replace(b": " + word, b': "' + word + b'"')
    return line
