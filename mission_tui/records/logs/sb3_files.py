"""SB3's `progress.csv` and `progress.json`, columns by tag in the order of the file.

Blank is not logged, and only the word nan is NaN. A header that comes again (two programs wrote one file) may bring
other columns; a last line that was cut short gives what is whole of it. A CSV of the plainest kind, a column of steps
and one of mean returns, is read by the names that people give these.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from mission_tui.records.logs.log import LogError, TableRow
from mission_tui.records.logs.table import ELAPSED, LOGGED, STEPS

WALL_TIME = "wall_time"
_WHERE = "time/"


_STEPS = ("total_timesteps", "timesteps", "timestep", "global_step", "env_steps", "env_step", "steps", "step")
_RETURNS = (
    "ep_rew_mean", "mean_reward", "mean_return", "avg_reward", "average_reward", "episode_reward", "episode_return",
    "episodic_return", "reward", "return",
)  # fmt: skip


def is_header(cells: Iterable[str]) -> bool:
    """Whether `cells` name the columns of a training log."""
    return any(name.startswith(LOGGED) for name in _names(cells))


def _names(cells: Iterable[str]) -> list[str]:
    """The columns, of a plain list of returns by SB3's names."""
    names = [cell.strip() for cell in cells]
    if any(name.startswith(LOGGED) for name in names):
        return names
    plain = [name.lower() for name in names]
    steps, returns = (next((it for it in known if it in plain), None) for known in (_STEPS, _RETURNS))
    if steps is None or returns is None:
        return names
    ours = {steps: STEPS, returns: "rollout/ep_rew_mean"}
    return [ours.get(name, name) for name in plain]


def read_csv(path: Path, damage: list[str]) -> Iterator[TableRow]:
    """The rows of the CSV at `path`. Raises `LogError` when it has no column of a training log."""
    columns: list[str] = []
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        lines = csv.reader(line.replace("\0", "") for line in file)
        while (cells := _next(lines, path)) is not None:
            if is_header(cells):
                columns = _names(cells)
            elif not columns:
                raise LogError(f"{path}: its first line names no column of a training log, such as train/approx_kl")
            elif cells:
                if len(cells) > len(columns):
                    damage.append(f"{path.name} line {lines.line_num}: {len(cells)} cells under {len(columns)} columns")
                # The last cell of a line that was cut short may be half a number.
                whole = cells if len(cells) >= len(columns) else cells[:-1]
                yield _row(dict(zip(columns, whole, strict=False)))


def read_json(path: Path, damage: list[str]) -> Iterator[TableRow]:
    """The rows of the JSON lines at `path`; lines that are no object are skipped and reported."""
    with path.open("rb") as file:
        for line_number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = msgspec.json.decode(_named_nan(line), type=dict[str, object])
            except (msgspec.DecodeError, RecursionError):
                damage.append(f"{path.name} line {line_number}: not a JSON object; it was skipped")
                continue
            yield _row({tag: _text(value) for tag, value in row.items()})


def _next(lines: Iterator[list[str]], path: Path) -> list[str] | None:
    try:
        return next(lines, None)
    except csv.Error as error:
        raise LogError(f"{path}: cannot be read as CSV: {error}") from None


def _row(written: Mapping[str, str]) -> TableRow:
    cells = {
        tag: value
        for tag, text in written.items()
        if tag.startswith((*LOGGED, _WHERE)) and (value := _value(text)) is not None
    }
    return TableRow(cells, _value(written.get(WALL_TIME, "")) or 0.0, _last_digit(written.get(ELAPSED, "")))


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
