"""One line per run, as many as fit, the chosen one always in sight. A line is built again only when its run changed.

Of a group of seeds it has medians, quartiles, and the worst of its members.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct
from textual import events
from textual.message import Message
from textual.strip import Strip

from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.specs.flat_settings import value_word
from mission_tui.fleet.views.seed_group import SeedGroup
from mission_tui.fleet.views.snapshot import MachineView, RunView
from mission_tui.present import numbers
from mission_tui.present.run_state import share_done, state_word, time_left
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import spark
from mission_tui.tui.drawing.strips import Part, fit, fit_name, line
from mission_tui.tui.plot.content import line_of
from mission_tui.tui.state import run_status
from mission_tui.tui.state.fleet_view_state import Row, leader, machine_of, members, row_fingerprint
from mission_tui.tui.widgets.lines import Lines
from mission_tui.tui.widgets.meters import machine_line

_LEAST_SPARK = 6
_IQR = "IQR "


def _group_name(group: SeedGroup, _now: float, _width: int) -> Part:
    return f"{group.name} x{len(group.members)}", colours.INK if group.live else colours.QUIET


def _group_state(group: SeedGroup, _now: float, width: int) -> Part:
    if group.live:
        part = f"{len(group.live)}/{len(group.members)}"
        return part + " live" * (len(part) + 5 <= width), colours.LIVE
    words = {state_word(view) for view in group.members}
    if any(view.unheard_since is not None for view in group.members):
        return "no link", colours.QUIET
    if len(words) == 1:
        return next(iter(words)), run_status.state_style(group.members[0])
    if any(view.state == "queued" for view in group.members):
        return "queued", colours.QUIET
    parked = sum(view.state == "parked" for view in group.members)
    # Only those go on by `r` with what they have learned.
    return f"{parked} parked" if parked else "ended", colours.QUIET


def _group_done(group: SeedGroup, _now: float, _width: int) -> Part:
    shares = [share for view in group.members if (share := share_done(view)) is not None]
    return numbers.percent(min(shares) if len(shares) == len(group.members) else None), colours.INK


def _group_return(group: SeedGroup, _now: float, width: int) -> Part:
    return numbers.reading_in(group.returns.median if group.returns else None, width), colours.INK


def _group_curve(group: SeedGroup, _now: float, width: int) -> Part:
    """The curve of the medians, and the quartiles of the newest returns; where there is no room for both, these."""
    style = colours.LIVE if group.live else colours.QUIET
    middle = group.returns
    if middle is None:
        return "", style
    span = _span(middle.first, middle.third, width)
    if len(_IQR) + len(span) <= width:
        span = _IQR + span
    room = width - len(span) - 1
    if room < _LEAST_SPARK:
        return span, style
    last = min((view.update or 0) for view in group.members)
    return f"{spark(group.medians, room, last=last)} {span}", style


def _span(low: float, high: float, width: int) -> str:
    """`5.18..6.37` in at most `width` cells where fewer digits bring that about: a figure without its end is a lie."""
    said = f"{numbers.reading(low)}..{numbers.reading(high)}"
    for digits in (3, 2, 1):
        if len(said) <= width or not (math.isfinite(low) and math.isfinite(high)):
            break
        largest = max(abs(low), abs(high))
        places = max(0, digits - 1 - math.floor(math.log10(largest))) if largest else 0
        said = "..".join(_rounded(end, places) for end in (low, high))
    return said


def _rounded(value: float, places: int) -> str:
    if abs(value) >= 1000:
        return f"{'-' * (value < 0)}{numbers.compact(abs(value))}"
    return f"{value:.{places}f}"


def _group_speed(group: SeedGroup, _now: float, _width: int) -> Part:
    return numbers.rate(group.pace), colours.INK


def _group_health(group: SeedGroup, _now: float, _width: int) -> Part:
    text, style = run_status.badge(leader(group))
    return f" {text}", style


def _group_left(group: SeedGroup, now: float, _width: int) -> Part:
    """Time until the last of them is done, unknown while one waits; of a group that is over, the time since."""
    if any(view.state == "queued" for view in group.members):
        return numbers.DASH, colours.INK if group.live else colours.QUIET
    if group.live:
        if any(view.eta_s is None for view in group.live):
            return numbers.DASH, colours.INK
        return time_left(max(group.live, key=lambda view: view.eta_s or 0.0)), colours.INK
    ends = [view.ended_t for view in group.members if view.ended_t is not None]
    return numbers.ago(max(ends, default=None), now), colours.QUIET


GROUP_CELLS: Mapping[str, Callable[[SeedGroup, float, int], Part]] = {
    "run": _group_name,
    "state": _group_state,
    "done": _group_done,
    "return": _group_return,
    "": _group_curve,
    "st/s": _group_speed,
    "health": _group_health,
    "ETA": _group_left,
}
"""By the title of the column."""


class Column(Struct, frozen=True):
    """A column: `least` is the table width from which it is shown, `grow` its share of spare cells, up to `most`;
    `whole` the cells in which its words are seldom cut, which come first beside settings that vary.
    """

    title: str
    width: int
    cell: Callable[[RunView, float, int], Part]
    align: Literal["left", "right"] = "right"
    least: int = 0
    grow: int = 0
    most: int = 0
    whole: int = 0


def _name(view: RunView, _now: float, _width: int) -> Part:
    return view.name, colours.INK if view.state in ALIVE else colours.QUIET


def _state(view: RunView, _now: float, _width: int) -> Part:
    return state_word(view), run_status.state_style(view)


def _done(view: RunView, now: float, _width: int) -> Part:
    return numbers.percent(share_done(view)), colours.INK


def _return(view: RunView, _now: float, width: int) -> Part:
    return numbers.reading_in(view.metrics.get("rollout/ep_rew_mean"), width), colours.INK


def _spark(view: RunView, _now: float, width: int) -> Part:
    style = colours.LIVE if view.state in ALIVE else colours.QUIET  # that of lines is the chosen row's with 16 colours
    return line_of(view, width), style


def _speed(view: RunView, _now: float, _width: int) -> Part:
    return numbers.rate(view.pace), colours.INK


def _health(view: RunView, _now: float, _width: int) -> Part:
    text, style = run_status.badge(view)
    return f" {text}", style


def _left(view: RunView, now: float, _width: int) -> Part:
    return run_status.remaining(view, now), colours.INK if view.state in ALIVE else colours.QUIET


COLUMNS = (
    Column("run", 14, _name, "left", grow=2, most=34),
    Column("state", 8, _state, "left"),
    Column("done", 4, _done),
    Column("return", 7, _return, least=48),
    Column("", 8, _spark, "left", least=78, grow=2, most=60),
    Column("st/s", 7, _speed, least=70),
    Column(" health", 10, _health, "left", grow=1, most=40, whole=12),
    Column("ETA", 7, _left, least=56),
)
_LEAD = 3
_VARIED_LEAST, _VARIED_MOST, _VARIED_WIDTH = 60, 4, 5
"""From which table width settings that vary have columns, how many at most, and their least cells."""


def _shape(row: Row) -> Part:
    """That of a run; of a group that of a member that lives, or else still waits, else that of all where they ended
    alike, and a dot where they did not.
    """
    if not isinstance(row, SeedGroup):
        return run_status.shape(row), run_status.state_style(row)
    waiting = [view for view in row.members if view.state != "ended"]
    shown = (row.live or (*waiting, leader(row)))[0]
    if not waiting and len({run_status.shape(view) for view in row.members}) > 1:
        return "·", colours.QUIET
    return run_status.shape(shown), run_status.state_style(shown)


def _cell(column: Column, row: Row, now: float, width: int) -> Part:
    if isinstance(row, SeedGroup):
        own = GROUP_CELLS.get(column.title.strip())
        return own(row, now, width) if own is not None else _of_group(column, row, now, width)
    return column.cell(row, now, width)


def _setting_column(name: str, views: Sequence[RunView]) -> Column:
    """One of a setting that varies, as wide as its title and values."""

    def cell(view: RunView, _now: float, _width: int) -> Part:
        style = colours.INK if view.state in ALIVE else colours.QUIET
        return (value_word(view.varied[name]) if name in view.varied else ""), style

    longest = max((len(value_word(view.varied[name])) for view in views if name in view.varied), default=0)
    return Column(name, max(_VARIED_WIDTH, min(14, max(len(name), longest))), cell)


def _of_group(column: Column, group: SeedGroup, now: float, width: int) -> Part:
    """What all members have; nothing where that is not the same."""
    cells = {column.cell(view, now, width)[0]: column.cell(view, now, width) for view in group.members}
    return next(iter(cells.values())) if len(cells) == 1 else ("", colours.QUIET)


def _key(row: Row, now: float) -> object:
    """What a row's words depend on besides its view."""
    return tuple(run_status.remaining(view, now) for view in members(row))


class RunTable(Lines):
    """The list of runs under a line of column titles."""

    @dataclass
    class Picked(Message):
        """The person clicked on the run at `index` of the roster; `twice` opens it."""

        index: int
        twice: bool

    @dataclass
    class SortPicked(Message):
        """The person clicked on a column title."""

        title: str

    def __init__(self) -> None:
        super().__init__(id="runs")
        self._runs: Sequence[Row] = ()
        self._first = 0
        self._chosen: int | None = None
        self._marked: frozenset[str] = frozenset()
        self._sort = "age"
        self._columns: tuple[Column, ...] = COLUMNS
        self._now = 0.0
        self._top = 0
        self._empty: Sequence[Sequence[Part]] = ()
        self._machines: Sequence[MachineView] = ()
        self._older = False
        self._window: Sequence[MachineView | int] = ()
        self._cache: dict[str, tuple[tuple[object, ...], Strip]] = {}

    def update(
        self,
        runs: Sequence[Row],
        *,
        now: float,
        chosen: int | None = None,
        marked: frozenset[str] = frozenset(),
        sort: str = "age",
        varied: Sequence[str] = (),
        first: int = 0,
        empty: Sequence[Sequence[Part]] = (),
        machines: Sequence[MachineView] = (),
        older: bool = False,
    ) -> None:
        """List `runs`; `chosen` is an index into them, `first` the roster index of their first. `varied` are settings
        that have a column each where there is room.

        `empty` is what an empty list says. Runs of several `machines` stand below the line of theirs. `older`: there
        are runs that are not among these.
        """
        self._runs, self._now, self._chosen, self._marked = runs, now, chosen, marked
        self._sort, self._first, self._empty, self._machines = sort, first, empty, machines
        self._older = older
        views = [view for row in runs for view in members(row)]
        settings = tuple(_setting_column(name, views) for name in varied if any(name in it.varied for it in views))
        self._columns = (COLUMNS[0], *settings[:_VARIED_MOST], *COLUMNS[1:]) if settings else COLUMNS
        self.redraw()

    def redraw(self) -> None:
        """Title line, then the window of runs that holds the chosen one."""
        width, height = self.size
        rows = max(0, height - 1)
        if not self._runs and not self._machines:
            self._cache.clear()
            self.show([line(parts, width) for parts in self._empty[:height]])
            return
        listed = self._listed()
        window = self._window = self._seen_of(listed, rows)
        widths = _layout(width, self._columns)
        lost = {machine.name for machine in self._machines if machine.lost_t is not None}
        fresh: dict[str, tuple[tuple[object, ...], Strip]] = {}
        strips = [self._titles(widths, sum(isinstance(it, int) for it in window))]
        for at in window:
            if isinstance(at, MachineView):
                strips.append(machine_line(at, self._now, width, heads=True))
                continue
            view = self._runs[at]
            chosen, away = at == self._chosen, machine_of(view) in lost
            key = (
                [row_fingerprint(it) for it in members(view)],
                [(column.title, cells) for column, cells in widths],
                chosen,
                away,
                self._is_marked(view),
                _key(view, self._now),
            )
            kept = self._cache.get(view.id)
            row = kept[1] if kept and kept[0] == key else self._row(view, widths, chosen=chosen, away=away)
            fresh[view.id] = key, row
            strips.append(row)
        if not self._runs and len(strips) < height:
            strips += [line(parts, width) for parts in self._empty[: height - len(strips)]]
        self._cache = fresh
        self.show(strips)

    @property
    def curved(self) -> list[RunView]:
        """The runs in sight whose curve has a column."""
        if all(column.cell is not _spark for column, _ in _layout(self.size.width, self._columns)):
            return []
        rows = [self._runs[at] for at in self._window if isinstance(at, int) and at < len(self._runs)]
        return [row for row in rows if isinstance(row, RunView)]

    def _listed(self) -> list[MachineView | int]:
        """The lines of the whole list: places of runs, below the machine that they are on."""
        if not self._machines:
            return list(range(len(self._runs)))
        places: dict[str, list[int]] = {machine.name: [] for machine in self._machines}
        for at, row in enumerate(self._runs):
            places.setdefault(machine_of(row), []).append(at)
        heads = {machine.name: machine for machine in self._machines}
        return [it for name, runs in places.items() for it in ([heads[name]] if name in heads else []) + runs]

    def _seen_of(self, listed: Sequence[MachineView | int], rows: int) -> Sequence[MachineView | int]:
        """As many lines as fit, the chosen one among them; the machine of the first always stands above it."""
        heads = 1 if self._machines else 0
        if self._chosen is not None:
            at = listed.index(self._chosen)
            # With the first run its machine is in sight too.
            self._top = min(max(self._top, at - rows + 1), max(0, at - heads))
        self._top = max(0, min(self._top, len(listed) - rows))
        window = list(listed[self._top : self._top + rows])
        if window and isinstance(window[0], int) and self._machines:
            above = [it for it in listed[: self._top] if isinstance(it, MachineView)]
            window[:1] = above[-1:] or window[:1]
        return window

    def _titles(self, widths: Sequence[tuple[Column, int]], rows: int) -> Strip:
        parts: list[Part] = [(" " * _LEAD, colours.QUIET)]
        every = [column for column in self._columns if column not in COLUMNS]
        shown = [column for column, _ in widths if column in every]
        last_setting, left_out = shown[-1] if len(shown) < len(every) and shown else None, len(every) - len(shown)
        for column, width in widths:
            sorted_by = column.title.strip() == self._sort
            title = f"{column.title}▾" if sorted_by else column.title
            if column is last_setting and len(f"{title} +{left_out}") <= width:
                title += f" +{left_out}"
            if column.title == "run" and rows < len(self._runs):
                first = next((at for at in self._window if isinstance(at, int)), 0)
                title += f" {first + 1}-{first + rows}/{len(self._runs)}{'+' * self._older}"
            style = colours.KEY if sorted_by else colours.QUIET
            # The mark of the order takes the blank after a column that has no cell for it.
            over = sorted_by and len(title) > width
            parts.append((fit(title, width + over, column.align) + " " * (not over), style))
        return line(parts, self.size.width)

    def _is_marked(self, row: Row) -> bool:
        return all(view.id in self._marked for view in members(row))

    def _row(self, row: Row, widths: Sequence[tuple[Column, int]], *, chosen: bool, away: bool) -> Strip:
        """The line of a row; grey where its machine does not answer."""
        parts: list[Part] = [
            (">" if chosen else " ", colours.KEY),
            _shape(row),
            ("✓" if self._is_marked(row) else " ", colours.KEY),
        ]
        for column, width in widths:
            text, style = _cell(column, row, self._now, width)
            parts.append((_fit(text, width, column) + " ", colours.QUIET if away else style))
        return line(parts, self.size.width, colours.CHOSEN if chosen else None)

    def on_click(self, event: events.Click) -> None:
        """A click chooses a run or sorts by a column."""
        if event.y > 0:
            at = self._window[event.y - 1] if event.y <= len(self._window) else None
            if isinstance(at, int):
                self.post_message(self.Picked(self._first + at, twice=event.chain == 2))
            return
        left = _LEAD
        for column, width in _layout(self.size.width, self._columns):
            if left <= event.x <= left + width and column.title:
                self.post_message(self.SortPicked(column.title.strip()))
            left += width + 1

    def wheel(self, by: int) -> None:
        """The wheel moves the choice."""
        at = max(0, min((self._chosen or 0) + 3 * by, len(self._runs) - 1))
        self.post_message(self.Picked(self._first + at, twice=False))


def _fit(text: str, width: int, column: Column) -> str:
    return fit_name(text, width) if column.title == "run" else fit(text, width, column.align)


def _layout(width: int, every: Sequence[Column]) -> list[tuple[Column, int]]:
    """The columns of `every` that fit `width` and their cells: spare cells go by weight, most of all to name and
    sparkline. Settings that vary have what the others leave, the first of them in place of the curve, and the title of
    the last one says how many more there are.
    """
    columns = [column for column in COLUMNS if width >= column.least]
    settings = [column for column in every if column not in COLUMNS] if width >= _VARIED_LEAST else []
    if settings:
        curveless = [column for column in columns if column.title]
        if _spare(width, columns) <= settings[0].width < _spare(width, curveless):
            columns = curveless
        room, taken = _spare(width, columns), 0
        while taken < len(settings) and (room := room - settings[taken].width - 1) >= 0:
            taken += 1
        columns[1:1] = settings[:taken]
    spare = _spare(width, columns)
    # Settings leave few: those go to words that one cell less would cut.
    least = {column.title: max(0, min(spare, column.whole - column.width)) for column in columns if settings}
    spare -= sum(least.values())
    weights = sum(column.grow for column in columns)
    sized: list[tuple[Column, int]] = []
    for column in columns:
        extra = spare * column.grow // weights if spare > 0 and weights else min(spare, 0) if column.grow == 2 else 0
        cells = column.width + least.get(column.title, 0) + extra
        sized.append((column, max(1, min(cells, column.most or column.width))))
    return sized


def _spare(width: int, columns: Sequence[Column]) -> int:
    """The cells that `columns` leave; the last one has no blank behind it."""
    return width - _LEAD - sum(column.width + 1 for column in columns) + 1
