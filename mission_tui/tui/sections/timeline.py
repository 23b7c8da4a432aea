"""The strip as lines: of each GPU peak and mean, below them each run's phases, all over one ruler. Pure.

Column i is the same time in every line. A peak and a mean have a line each, so that neither hides the other and both
survive without colours; a phase has a shape of its own, and a column that holds rollouts and updates is as high as the
share of its updates.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.events.outcome import PHASES, Phase
from mission_tui.fleet.strips.cells import Cell
from mission_tui.fleet.strips.strip import Lane
from mission_tui.fleet.strips.strip import Strip as MachineStrip
from mission_tui.present import numbers
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.sparkline import LEVELS
from mission_tui.tui.drawing.strips import Part, fit, line
from mission_tui.tui.state.timeline import (
    Axis,
    LaneState,
    axis_of,
    busy_columns,
    busy_over,
    lane_columns,
    phase_shares,
    update_share,
)

LABEL, TAIL = 16, 14
"""Cells left of the columns, for who it is, and right of them, for the figures of the whole stretch."""
_UPDATE_LEVELS = "▁▂▃▆▇█"
"""Without those whose ASCII stand-ins mean another phase."""
_SHAPES: Mapping[LaneState, tuple[str, Style]] = {
    "rollout": ("─", colours.LIVE),
    "update": ("█", colours.UPDATE),
    "saving": ("↓", colours.GOOD),
    "paused": ("‖", colours.PAUSED),
    "starting": ("◌", colours.QUIET),
    "ending": ("◐", colours.QUIET),
    "queued": (":", colours.QUIET),
    "frozen": ("◇", colours.PAUSED),
    "parked": ("▣", colours.PAUSED),
}
_TRAINS: tuple[Phase, ...] = ("rollout", "update")
_TICKS = 5
_NICE_S = (1, 5, 10, 15, 30, 60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600)


def columns_for(width: int) -> int:
    """How many columns fit `width` cells."""
    return max(0, width - LABEL - TAIL)


def rows_for(gpus: int, lanes: int, most: int) -> int:
    """How many of `most` rows are used: the ruler, two for each GPU or the processors, the lanes and their legend."""
    return min(most, 1 + 2 * max(1, gpus) + (lanes + 1 if lanes else 0))


class _Track(Struct, frozen=True):
    label: str
    cells: Sequence[Cell]


def timeline(
    strip: MachineStrip,
    seconds: float,
    word: str,
    width: int,
    rows: int,
    live: Collection[str] = (),
    end: str = "now",
) -> list[Strip]:
    """At most `rows` lines of `width` cells for the last `seconds`, called `word`; lanes of `live` runs come first.

    The strip ends at the moment that is called `end`.
    """
    columns = columns_for(width)
    if columns < 1 or rows < 1:
        return []
    axis = axis_of(strip.until, seconds, columns)
    tracks = [_Track(f"GPU{at}", gpu.busy) for at, gpu in enumerate(strip.gpus)]
    tracks = tracks or ([_Track("CPU", strip.cpu)] if strip.cpu else [])
    if not tracks and not strip.lanes:
        nothing = f"measured in the last {word}" if end == "now" else f"kept of the {word} before {end}"
        return [line([(f" nothing was {nothing}", colours.QUIET)], width)]
    lanes = sorted(strip.lanes, key=lambda lane: lane.run not in live)
    drawn = [_ruler(seconds, word, columns, end), *_tracks(tracks, axis, rows - 1 - min(len(lanes), rows // 3))]
    drawn += _lanes(lanes, axis, rows - len(drawn))
    return [line(parts, width) for parts in drawn[:rows]]


def _ruler(seconds: float, word: str, columns: int, end: str) -> list[Part]:
    """How long before `end` each place is; it stands still, and time runs under it."""
    end = f"{end}│" if len(end) < columns else ""
    marks = [" "] * columns
    step = next((nice for nice in _NICE_S if seconds / nice <= _TICKS), seconds)
    ago = step
    while ago < seconds:
        at = columns - round(ago / seconds * columns)
        mark = f"│-{_short(ago)}"
        if at + len(mark) < columns - len(end):
            marks[at : at + len(mark)] = mark
        ago += step
    marks[columns - len(end) :] = end
    return [(fit(f" last {word}", LABEL), colours.QUIET), ("".join(marks), colours.QUIET)]


def _short(seconds: float) -> str:
    for length, unit in ((3600, "h"), (60, "m")):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return numbers.duration(seconds)


def _tracks(tracks: Sequence[_Track], axis: Axis, rows: int) -> Iterator[list[Part]]:
    """Peak over mean; with more GPUs than there is room for, of each the peak alone."""
    both = 2 * len(tracks) <= rows
    for track in tracks if both else tracks[:rows]:
        columns, whole = busy_columns(track.cells, axis), busy_over(track.cells, axis)
        peak, mean = (None, None) if whole is None else (whole.peak, whole.mean)
        yield [
            (fit(f" {track.label} peak", LABEL), colours.INK),
            (_blocks(None if column is None else column.peak for column in columns), colours.SHADES[2]),
            (f" {numbers.in_unit(peak, '%'):>4}", colours.INK),
            ("" if both else f" mean {numbers.in_unit(mean, '%')}", colours.QUIET),
        ]
        if both:
            yield [
                (fit(f"{'mean':>{len(track.label) + 6}}", LABEL), colours.QUIET),
                (_blocks(None if column is None else column.mean for column in columns), colours.LIVE),
                (f" {numbers.in_unit(mean, '%'):>4}", colours.INK),
            ]


def _blocks(percents: Iterable[float | None]) -> str:
    return "".join(" " if percent is None else LEVELS[min(7, max(0, int(percent / 100 * 8)))] for percent in percents)


def _lanes(lanes: Sequence[Lane], axis: Axis, rows: int) -> Iterator[list[Part]]:
    """A line for each run and what its shapes mean; what finds no room is counted."""
    if not lanes or rows < 1:
        return
    shown = len(lanes) if len(lanes) < rows else max(1, rows - 1)
    drawn = set[LaneState]()
    for lane in lanes[:shown]:
        columns = lane_columns(lane, axis)
        drawn |= {max(column, key=column.__getitem__) for column in columns if column}
        share = update_share(phase_shares(columns))
        yield [
            (fit(f" {lane.name}", LABEL - 1) + " ", colours.INK),
            *_merged(phase_cell(column) for column in columns),
            ("" if share is None else f" {numbers.in_unit(100 * share, '%'):>4} update", colours.QUIET),
        ]
    if shown < rows:
        yield _legend(len(lanes) - shown, drawn)


def _legend(hidden: int, drawn: Collection[LaneState]) -> list[Part]:
    """What every phase looks like, and of the states in which a run stands those that are there."""
    parts: list[Part] = [(fit(f" {hidden} more" if hidden else "", LABEL), colours.QUIET)]
    for phase, (shape, style) in _SHAPES.items():
        if phase not in PHASES and phase not in drawn:
            continue
        parts += [(shape, style), (f" {phase}  ", colours.QUIET)]
    return parts


def phase_cell(seconds: Mapping[LaneState, float]) -> Part:
    """One column of a lane: the phase that filled it, or of rollouts with updates how much of it were updates."""
    if not seconds:
        return " ", colours.QUIET
    share = update_share(seconds)
    most = max(seconds, key=lambda phase: seconds[phase])
    if share is None or most not in _TRAINS:
        return _SHAPES[most]
    if share <= 0:
        return _SHAPES["rollout"]
    return _UPDATE_LEVELS[min(5, math.ceil(share * 6) - 1)], colours.UPDATE


def _merged(cells: Iterator[Part]) -> Iterator[Part]:
    """Neighbours of one colour as one part."""
    text, style = "", colours.QUIET
    for glyph, own in cells:
        if own != style and text:
            yield text, style
            text = ""
        text, style = text + glyph, own
    if text:
        yield text, style
