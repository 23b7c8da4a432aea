"""SB3's `progress.csv` and `progress.json`, columns by tag in the order of the file, and its `monitor.csv`.

Blank is not logged, and only the word nan is NaN. A header that comes again (two programs wrote one file) may bring
other columns; a last line that was cut short gives what is whole of it. A monitor file has one line an episode, after a
comment with its start time and a header `r,l,t`.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from mission_tui.fleet.events.metrics import Episodes, spoken
from mission_tui.records.logs.log import LogError, TableRow
from mission_tui.records.logs.table import ELAPSED, LOGGED

WALL_TIME = "wall_time"
_WHERE = "time/"
SAMPLED = 256
LONGEST = 2**40
"""More steps than any episode has: such a line is damage, and their sum has to stay a number that can be written."""


def is_header(cells: Iterable[str]) -> bool:
    """Whether `cells` name the columns of a training log."""
    return any(cell.strip().startswith(LOGGED) for cell in cells)


def read_csv(path: Path, damage: list[str]) -> Iterator[TableRow]:
    """The rows of the CSV at `path`. Raises `LogError` when it has no column of a training log."""
    columns: list[str] = []
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        lines = csv.reader(line.replace("\0", "") for line in file)
        while (cells := _next(lines, path)) is not None:
            if is_header(cells):
                columns = [cell.strip() for cell in cells]
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


@dataclass(frozen=True, slots=True, order=True)
class Ended:
    """An episode: unix time of its end, return, steps, and the steps of all episodes up to it, itself included.

    `after_s` are the seconds from its monitor's beginning to its end.
    """

    t: float
    r: float
    length: int
    steps: int = 0
    after_s: float = 0.0


def read_monitors(paths: Iterable[Path]) -> list[Ended]:
    """The episodes in all files, in the order of their ends; lines that are none, or not whole, are passed over.

    Raises `OSError`.
    """
    episodes = sorted(episode for path in paths for episode in _read(path))
    steps = 0
    counted: list[Ended] = []
    for episode in episodes:
        steps += episode.length
        counted.append(replace(episode, steps=steps))
    return counted


def sample_of(ended: Sequence[Ended]) -> Episodes:
    """How many there are, and of the newest their returns and lengths."""
    newest = ended[-SAMPLED:]
    return Episodes(n=len(ended), r=tuple(spoken(it.r) for it in newest), l=tuple(it.length for it in newest))


def _read(path: Path) -> list[Ended]:
    head, *lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    started = _started(head)
    columns = lines[0].strip().split(",") if lines else []
    if not {"r", "l", "t"} <= set(columns):
        return []
    places = [columns.index(name) for name in ("t", "r", "l")]
    episodes = []
    # What follows the last newline is not whole yet.
    for line in lines[1:-1]:
        cells = line.strip().split(",")
        try:
            t, r, length = (float(cells[place]) for place in places)
        except (ValueError, IndexError):
            continue
        if math.isfinite(started + t) and 0 <= length <= LONGEST:
            episodes.append(Ended(started + t, r, int(length), after_s=t))
    return episodes


def _started(head: str) -> float:
    try:
        started = float(json.loads(head.removeprefix("#"))["t_start"])
        return started if math.isfinite(started) else 0.0
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return 0.0
