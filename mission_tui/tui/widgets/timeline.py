"""The strip: peak and mean of each GPU, below them the phases of each run, over one time axis; asked for while seen.

Column i is the same time in every line. Peak and mean have a line each, so that neither hides the other and both can be
read without colours. Each phase has its own shape; a column with rollouts and updates is as high as the share of its
updates.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from rich.style import Style
from textual.strip import Strip

from mission_tui.fleet.events.outcome import ALIVE, PHASES, Phase
from mission_tui.fleet.strip import Cell, Lane
from mission_tui.fleet.strip import Strip as MachineStrip
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.present import numbers
from mission_tui.present.machines import attribute, duty_sentence
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import LEVELS
from mission_tui.tui.drawing.strips import Part, fit, fit_name, line
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.timeline import (
    Axis,
    LaneState,
    TimelineQuery,
    axis_of,
    busy_columns,
    busy_over,
    lane_columns,
    phase_shares,
    update_share,
)
from mission_tui.tui.widgets.lines import Lines

_ALL = 1 << 20
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


class Timeline(Lines):
    """`rows` is how many it takes; none where it is not shown."""

    def __init__(self, app_context: AppContext) -> None:
        super().__init__(id="timeline")
        self._app_context = app_context
        self._timeline_query = TimelineQuery(app_context, self._answered)
        self._snapshot: FleetSnapshot | None = None
        self._most = 0
        self._cut: MachineStrip | None = None
        self._how: tuple[object, ...] = ()
        self._told: tuple[MachineStrip, list[str]] | None = None
        self.rows = 0

    def update(self, snapshot: FleetSnapshot | None, most: int) -> None:
        """Take at most `most` rows for what `snapshot` says is there, and ask for what is not known."""
        self._snapshot, self._most = snapshot, most
        self.rows = self._needed()
        if self.display != (self.rows > 0):
            self.display = self.rows > 0
        if not self.rows:
            return
        self.styles.height = self.rows
        self._request()
        self.redraw()

    def _request(self) -> None:
        if self._is_visible():
            columns = columns_for(self.app.size.width)
            self._timeline_query.request(self._app_context.zoom.seconds, columns, self._past_t, self._machine)

    @property
    def _machine(self) -> str:
        """The one that is looked at on a screen of several."""
        return self._snapshot.hosts[0].name if self._snapshot is not None and self._snapshot.hosts else ""

    @property
    def _past_t(self) -> float | None:
        """In a replay the moment at which the strip ends."""
        return None if self._snapshot is None or self._snapshot.replay is None else self._snapshot.t

    def _is_visible(self) -> bool:
        """Whether nothing but a question lies over it: a screen below another one is drawn, too."""
        top = self.app.screen
        return top is self.screen or (top.is_modal and self._app_context.shown is self.screen)

    @property
    def wanted_rows(self) -> int:
        """How many rows there is something for."""
        return self._needed(_ALL)

    def _needed(self, most: int | None = None) -> int:
        most = self._most if most is None else most
        if self._snapshot is None or most < 1:
            return 0
        strip = self._timeline_query.strip
        if strip is None and self._timeline_query.trouble is not None:
            return 1
        lanes = sum(view.state in ALIVE for view in self._snapshot.runs)
        if strip is not None:
            lanes = 0 if not strip.lanes else max(lanes, len(strip.lanes))
        return rows_for(len(self._snapshot.gpus), lanes, most)

    @property
    def sentences(self) -> list[str]:
        """What the strip says of each GPU in a sentence."""
        strip = self._timeline_query.strip
        if strip is None or not any(gpu.busy for gpu in strip.gpus):
            return []
        if self._told is None or self._told[0] is not strip:
            duties = attribute(strip).gpus
            named = [f"GPU{at}: " if len(strip.gpus) > 1 else "" for at in range(len(strip.gpus))]
            places = {gpu.uuid: place for gpu, place in zip(strip.gpus, named, strict=True)}
            zoom = self._app_context.zoom.word
            said = [f"{places[duty.uuid]}{duty_sentence(duty)}, in the last {zoom}" for duty in duties]
            self._told = strip, said
        return self._told[1]

    def _answered(self) -> None:
        if not self.is_attached:
            return
        self._request()  # No snapshot comes in a replay, where another moment may be wanted by now.
        if self.rows != self._needed():
            self._app_context.redraw()
        else:
            self.redraw()

    def redraw(self) -> None:
        """The newest strip for the present size."""
        width, strip = self.size.width, self._timeline_query.strip
        if strip is None:
            said = self._timeline_query.trouble or "loading the strip…"
            self.show([line([(f" {said}", colours.QUIET)], width)])
            return
        views = self._snapshot.runs if self._snapshot else ()
        live = frozenset(view.id for view in views if view.state in ALIVE)
        zoom = self._app_context.zoom
        # Snapshots come far more often than answers, and cutting a day into columns is work.
        end = "now" if self._past_t is None else time.strftime("%H:%M:%S", time.localtime(strip.until))
        how = (zoom.seconds, width, self.rows, live, self._machine)
        if strip is not self._cut or how != self._how or not self._strips:
            self._cut, self._how = strip, how
            self.show(timeline(strip, zoom.seconds, zoom.word, width, self.rows, live, end, self._machine))


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
    machine: str = "",
) -> list[Strip]:
    """At most `rows` lines of `width` cells for the last `seconds`, called `word`; lanes of `live` runs come first.

    The strip ends at the moment that is called `end`. Its first line names the `machine`, on a screen of several.
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
    ruler = _ruler(seconds, word, columns, end, machine)
    drawn = [ruler, *_tracks(tracks, axis, rows - 1 - min(len(lanes), rows // 3))]
    drawn += _lanes(lanes, axis, rows - len(drawn))
    return [line(parts, width) for parts in drawn[:rows]]


def _ruler(seconds: float, word: str, columns: int, end: str, machine: str) -> list[Part]:
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
    return [
        (fit(f" {machine} {word}" if machine else f" last {word}", LABEL), colours.QUIET),
        ("".join(marks), colours.QUIET),
    ]


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
            (" " + fit_name(lane.name, LABEL - 2) + " ", colours.INK),
            *_merged(phase_cell(column) for column in columns),
            ("" if share is None else f" {numbers.in_unit(100 * share, '%'):>4} update", colours.QUIET),
        ]
    if shown < rows:
        yield _legend(len(lanes) - shown, drawn, LABEL + axis.columns + TAIL)


def _legend(hidden: int, drawn: Collection[LaneState], width: int) -> list[Part]:
    """What every phase looks like, and of the states in which a run stands those that are there; none is cut."""
    parts: list[Part] = [(fit(f" {hidden} more" if hidden else "", LABEL), colours.QUIET)]
    for phase, (shape, style) in _SHAPES.items():
        if phase not in PHASES and phase not in drawn:
            continue
        width -= len(shape) + len(phase) + 3
        if width < LABEL - 2:
            break
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
