"""The picture of a `bench`: a bar for each preset or combination, its repeats as dots, and the interval of their mean.

Drawn as the screen's pictures are: SVG needs nothing else, PNG the extra `report`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mission_tui.errors import UsageError, install_words
from mission_tui.fleet.bench.ratio import pace_of
from mission_tui.present.numbers import count
from mission_tui.records.files.atomic import write_atomic_group

if TYPE_CHECKING:
    from mission_tui.cli.tables.timed_runs import BenchResult
    from mission_tui.fleet.tuning.sweep import SweepResult
    from mission_tui.tui.drawing.picture_file import Surface

FORMATS = (".svg", ".png")
_GROUND, _INK, _FAINT, _BAR, _BEST = "#ffffff", "#222222", "#d5d5d5", "#56b4e9", "#009e73"
_WIDTH, _LEFT_MOST, _RIGHT, _MARGIN, _ROW, _HEAD, _FOOT = 860.0, 380.0, 110.0, 16.0, 30.0, 74.0, 46.0
_CHARACTER, _SIZE = 7.3, 12.0
_SENTENCE_CHARACTERS, _SENTENCE_LINES = 112, 2


@dataclass(frozen=True, slots=True)
class Bar:
    """Steps per second of each repeat of what is called `name`; the `best` one has another colour."""

    name: str
    rates: tuple[float, ...]
    best: bool = False


def check_picture(path: Path) -> None:
    """Raise `UsageError` for a picture of another format, without a folder to write it to, or that nothing can draw."""
    from mission_tui.cli.tables.timed_runs import check_output
    from mission_tui.tui.drawing.picture_file import fonts_folder

    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"--figure {path}: the name has to end in {' or '.join(FORMATS)}")
    check_output("--figure", path)
    if path.suffix.lower() == ".png" and fonts_folder() is None:
        raise UsageError(f"--figure {path}: a PNG needs an extra package ({install_words('report')}); .svg needs none")


def bench_bars(found: BenchResult, names: Sequence[str]) -> tuple[list[Bar], str]:
    """A bar for each side, and the verdict."""
    bars = [Bar(name, side.rates) for name, side in zip(names, found.sides, strict=True)]
    return bars, "" if found.ratio is None else f"{names[0]} against {names[1]}: {found.ratio.sentence}"


def sweep_bars(found: SweepResult) -> tuple[list[Bar], str]:
    """A bar for each combination that was timed, and the verdict."""
    timed = [(at, row) for at, row in enumerate(found.rows) if row.side is not None]
    return [Bar(row.label, row.side.rates, at == found.best) for at, row in timed if row.side], found.sentence


def write_picture(path: Path, title: str, bars: Sequence[Bar], sentence: str) -> None:
    """Draw `bars` into `path`, replacing what was there, in a folder that is made if need be. Raises `StorageError`."""
    from mission_tui.tui.drawing.picture_file import PngSurface, SvgSurface, fonts_folder

    height = _HEAD + _ROW * len(bars) + _FOOT
    fonts = fonts_folder() if path.suffix.lower() == ".png" else None
    surface: SvgSurface | PngSurface = (
        SvgSurface(_WIDTH, height, _GROUND) if fonts is None else PngSurface(_WIDTH, height, _GROUND, fonts)
    )
    draw_bars(surface, title, bars, sentence)
    write_atomic_group(path.parent, {path.name: surface.data()})


def draw_bars(surface: Surface, title: str, bars: Sequence[Bar], sentence: str) -> None:
    """The whole picture on `surface`, `_WIDTH` units wide."""
    from mission_tui.cli.tables.comparison_report import ticks

    left = min(_LEFT_MOST, 2 * _MARGIN + _CHARACTER * max(len(bar.name) for bar in bars))
    right, bottom = _WIDTH - _RIGHT, _HEAD + _ROW * len(bars)
    most = max(1e-9, *(rate for bar in bars for rate in bar.rates))

    def across(rate: float) -> float:
        return left + (right - left) * min(rate, 1.05 * most) / most

    surface.text((_MARGIN, 24.0), title, _INK, 14.0, bold=True)
    said = textwrap.wrap(sentence, _SENTENCE_CHARACTERS, max_lines=_SENTENCE_LINES, placeholder=" …")
    for at, line in enumerate(said):
        surface.text((_MARGIN, 43.0 + 16.0 * at), line, _INK, _SIZE)
    for tick in ticks(0.0, most):
        surface.line([(across(tick), _HEAD - 4), (across(tick), bottom)], _FAINT, 1.0)
        surface.text((across(tick), bottom + 16), count(tick), _INK, _SIZE, "middle")
    surface.text(((left + right) / 2, bottom + 34), "steps per second, each dot a repeat", _INK, _SIZE, "middle")
    for at, bar in enumerate(bars):
        middle, pace = _HEAD + _ROW * (at + 0.5), pace_of(bar.rates)
        surface.boxes([(left, middle - 9, across(pace.median) - left, 18.0)], _BEST if bar.best else _BAR)
        if pace.lo is not None and pace.hi is not None:
            low, high = across(max(0.0, pace.lo)), across(pace.hi)
            surface.line([(low, middle), (high, middle)], _INK, 1.2)
            for end in (low, high):
                surface.line([(end, middle - 4), (end, middle + 4)], _INK, 1.2)
        surface.boxes([(across(rate) - 2, middle - 2, 4.0, 4.0) for rate in bar.rates], _INK)
        name = _cut(bar.name, round((left - 2 * _MARGIN) / _CHARACTER))
        surface.text((left - 8, middle + 4), name, _INK, _SIZE, "end")
        surface.text((_WIDTH - _MARGIN, middle + 4), count(pace.median), _INK, _SIZE, "end")


def _cut(words: str, characters: int) -> str:
    return words if len(words) <= characters else f"{words[: characters - 1]}…"
