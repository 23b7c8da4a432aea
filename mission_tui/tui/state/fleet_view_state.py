"""Which runs the fleet screen lists and in which order, and what the person chose to look at there: the chosen run,
marks, filter, order, panes or table, tab. Pure.

Runs are filtered, sorted, seeds together, live before ended; of several machines each machine's together. What was
chosen outlives snapshots: when the chosen run leaves the list, the choice moves to its neighbour and not to the top.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

from msgspec import Struct, field, structs

from mission_tui.fleet.events.metrics import number
from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.specs.flat_settings import short_names, value_word
from mission_tui.fleet.views.seed_group import SeedGroup, seed_groups
from mission_tui.fleet.views.snapshot import FleetSnapshot, MachineView, RunView
from mission_tui.present.run_state import share_done, state_word, stuck_s
from mission_tui.tui.actions import Move
from mission_tui.tui.state.filter_pattern import MACHINE as _MACHINE
from mission_tui.tui.state.filter_pattern import FilterPattern
from mission_tui.tui.state.run_status import alarms

SORTS = ("age", "run", "state", "done", "return", "st/s", "health", "ETA")
"""What a list can be sorted by; `age` is the snapshot's own order. The others are column titles, and settings that vary
come behind them.
"""

_CONDITION = re.compile(r"([A-Za-z_][\w.]*)(<=|>=|!=|=|<|>)(\S+)")
_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}

Row = RunView | SeedGroup


class Roster(Struct, frozen=True):
    """The listed rows: those with a living trainer, then those that wait or have ended. A group is one row. `machines`
    are those of which rows are listed, or could be: in their order.
    """

    live: tuple[Row, ...] = ()
    rest: tuple[Row, ...] = ()
    machines: tuple[MachineView, ...] = ()
    apart: bool = False

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows from top to bottom; with panes those in them first, else those of each machine together."""
        return self.live + self.rest if self.apart else _by_machine(self.live + self.rest, self.machines)

    @property
    def runs(self) -> tuple[RunView, ...]:
        """All listed runs from top to bottom, those of a group at its place."""
        return tuple(view for row in self.rows for view in members(row))

    @property
    def varied(self) -> tuple[str, ...]:
        """The settings that are not the same in all runs of some launch that is listed, by their short names: those of
        the most values first, as there may be room for one column alone.
        """
        values: dict[str, set[str]] = {}
        for view in self.runs:
            for name, value in view.varied.items():
                values.setdefault(name, set()).add(str(value))
        return tuple(sorted(values, key=lambda name: -len(values[name])))

    def index(self, id_: str | None) -> int | None:
        """The row that `id_` is or whose group it is in."""
        rows = enumerate(self.rows)
        return next((at for at, row in rows if row.id == id_ or any(view.id == id_ for view in members(row))), None)


def members(row: Row) -> tuple[RunView, ...]:
    """The runs of a row."""
    return row.members if isinstance(row, SeedGroup) else (row,)


def leader(row: Row) -> RunView:
    """The run that stands for a row: of a group the one in the worst health, among equals the first that lives. One
    that waits would stand there with what it waits for, as if nothing trained.
    """
    return min(members(row), key=lambda view: (_severity_rank(view), view.state not in ALIVE))


def machine_of(row: Row) -> str:
    """The machine of a row; empty on a screen of one."""
    return leader(row).host


def list_rows(
    snapshot: FleetSnapshot,
    pattern: FilterPattern | None = None,
    sort: str = "age",
    *,
    opened: Collection[str] = (),
    folded: Collection[str] = (),
    live_apart: bool = True,
) -> Roster:
    """The runs of `snapshot` that `pattern` finds, each part ordered by `sort` (one of `SORTS`).

    Runs that differ by their seed alone are one row, but for groups whose id is in `opened`; with `live_apart` (there
    are panes for them) also while one of them lives, unless it is in `folded`: then it comes first below the panes.
    """
    found, machines = list(snapshot.runs), snapshot.hosts
    if pattern is not None:
        if pattern.machine:
            names = _meant(pattern.machine, [machine.name for machine in machines])
            found = [view for view in found if view.host in names]
            machines = tuple(machine for machine in machines if machine.name in names)
        words = pattern.words.removeprefix(f"{_MACHINE}{pattern.machine}").strip()
        if conditions := _conditions(words, found):
            found = [view for view in found if all(_meets(view, *it) for it in conditions)]
        else:
            found = list(compress(found, pattern.among(map(_searched, found))))
        if words:
            listed = {view.host for view in found}
            machines = tuple(machine for machine in machines if machine.name in listed)
    if sort != "age":
        found.sort(key=_sort_key(sort, snapshot.t))
    closed = {
        view.id: group
        for group in seed_groups(found)
        if group.id in folded or (group.id not in opened and not (live_apart and group.live))
        for view in group.members
    }
    rows: dict[str, Row] = {}
    for view in found:
        row = closed.get(view.id, view)
        rows.setdefault(row.id, row)
    live: list[Row] = []
    rest: list[Row] = []
    for row in rows.values():
        (live if any(view.state in ALIVE for view in members(row)) else rest).append(row)
    if live_apart:
        rest = [*(row for row in live if isinstance(row, SeedGroup)), *rest]
        live = [row for row in live if isinstance(row, RunView)]
    return Roster(_by_machine(live, machines), _by_machine(rest, machines), machines, apart=live_apart)


def _by_machine(rows: Sequence[Row], machines: Sequence[MachineView]) -> tuple[Row, ...]:
    order = {machine.name: at for at, machine in enumerate(machines)}
    return tuple(sorted(rows, key=lambda row: order.get(machine_of(row), len(order)))) if order else tuple(rows)


def _meant(word: str, names: Sequence[str]) -> set[str]:
    """The machine of that name; while it is typed those that begin so."""
    return {word} & set(names) or {name for name in names if name.lower().startswith(word.lower())}


def _searched(view: RunView) -> str:
    words = (view.name, view.id, view.preset, state_word(view), view.group or "", view.env_id, view.kind or "")
    return " ".join((*words, *view.labels, *(f"{name}={value_word(value)}" for name, value in view.varied.items())))


def _conditions(words: str, views: Iterable[RunView]) -> list[tuple[str, str, str]]:
    """`lr>=1e-3 seed=2` as name, sign and value each; empty where that is no word of conditions about what varies."""
    found = [_CONDITION.fullmatch(word) for word in words.split()]
    known = {"seed", *(name for view in views for name in view.varied)}
    named = [(_known(it[1], known), it[2], it[3]) for it in found if it is not None]
    return named if len(named) == len(found) and all(name in known for name, _, _ in named) else []


def _known(name: str, known: Collection[str]) -> str:
    """The short name of a setting that was written in full; `name` as it is where there is none."""
    return next((it for it in (name, *short_names([name]).values(), name.rpartition(".")[2]) if it in known), name)


def _meets(view: RunView, name: str, sign: str, wanted: str) -> bool:
    """Whether the setting `name` of the run is as the condition says; numbers are compared as such."""
    has = view.seed if name == "seed" else view.varied.get(name)
    if has is None:
        return False
    try:
        return _COMPARED[sign](float(has), float(wanted))
    except ValueError:
        return _COMPARED[sign](value_word(has).casefold(), wanted.casefold())


def _by_setting(view: RunView, name: str) -> tuple[bool, Any]:
    """Settings rise, numbers before words; runs that have none come last."""
    has = view.varied.get(name)
    number_first = (isinstance(has, str), has if isinstance(has, str) else "", 0.0 if isinstance(has, str) else has)
    return (has is None, number_first)


def _by_number(name: str) -> list[str | int]:
    """A key by which `many-2` comes before `many-10`: words and numbers by turns."""
    return [int(part) if at % 2 else part for at, part in enumerate(re.split(r"([0-9]+)", name))]


def _sort_key(sort: str, now: float) -> Callable[[RunView], tuple[bool, Any]]:
    """Names rise, numbers fall (the most advanced, fastest, worst first), unknown values come last."""

    def falling(value: float | None) -> tuple[bool, Any]:
        return (value is None or value != value, -(value or 0.0))

    def key(view: RunView) -> tuple[bool, Any]:
        match sort:
            case "run":
                return (False, _by_number(view.name))
            case "state":
                return (False, state_word(view))
            case "done":
                return falling(share_done(view))
            case "return":
                return falling(number(view.metrics.get("rollout/ep_rew_mean")))
            case "st/s":
                return falling(view.pace)
            case "health":
                return (False, [_severity_rank(view), _by_number(view.name)])
            case _ if sort not in SORTS:
                return _by_setting(view, sort)
            case _:
                left = view.eta_s if view.state in ALIVE else None if view.ended_t is None else now - view.ended_t
                return (left is None, left or 0.0)

    return key


def _severity_rank(view: RunView) -> int:
    if set(view.flags) - {"failed-duty"} or view.outcome in ("failed", "lost"):
        return 0
    asking = alarms(view)
    if not asking and view.failed_duties:
        return 2
    return 3 if not asking else 1 if asking[0].severity == "critical" else 2


def row_fingerprint(view: RunView) -> RunView:
    """`view` without what neither a pane nor a line of the list shows."""
    heartbeat_t = None if stuck_s(view) is None else view.heartbeat_t  # of such a one nothing else changes
    return structs.replace(view, connected=True, heartbeat_t=heartbeat_t, phase_t=None, size_bytes=None, usage=None)


TABS = ("learn", "health", "config", "machine", "checkpoints", "log")
RUN_TABS = ("learn", "health", "config", "machine", "episodes", "journal", "checkpoints", "watch", "log")
"""Those of a run's own screen: what takes a whole screen to read has no short form below the list."""


class FleetViewState(Struct):
    """Mutable; changed by keys and settled against every snapshot. An `awaited` run is chosen once it is listed; is it
    taken back before another one is chosen, the run that was chosen before is again.

    `chosen` is the id of a row: a run's, or that of a group of seeds. `opened` are groups that are shown run by run,
    `folded` those that are one row even where each living run would have a pane.
    """

    chosen: str | None = None
    awaited: str | None = None
    marked: set[str] = field(default_factory=set)
    pattern: FilterPattern | None = None
    sort: str = "age"
    panes: bool | None = None
    tab: str = TABS[0]
    maximised: bool = False
    in_detail: bool = False
    opened: set[str] = field(default_factory=set)
    folded: set[str] = field(default_factory=set)
    roster: Roster = field(default_factory=Roster)
    _index: int = 0
    _before: str | None = None

    @classmethod
    def found(cls, panes: bool | None, sort: str) -> FleetViewState:
        """As it was left; an order that there is no more is that of age."""
        return cls(panes=panes, sort=sort if sort in SORTS else SORTS[0])

    def for_another_screen(self) -> FleetViewState:
        """The same choice, marks and arrangement for a further screen of this runs root."""
        return FleetViewState(
            chosen=self.chosen,
            marked=set(self.marked),
            pattern=self.pattern,
            sort=self.sort,
            panes=self.panes,
            tab=self.tab,
            opened=set(self.opened),
            folded=set(self.folded),
        )

    @property
    def sorts(self) -> tuple[str, ...]:
        """What the list can be sorted by now."""
        return (*SORTS, *(name for name in self.roster.varied if name not in SORTS))

    def take_snapshot(self, snapshot: FleetSnapshot, *, live_apart: bool = True) -> None:
        """Take over `snapshot`: list it again, keep the choice, forget marks of runs that are gone."""
        self.roster = list_rows(
            snapshot, self.pattern, self.sort, opened=self.opened, folded=self.folded, live_apart=live_apart
        )
        rows = self.roster.rows
        known = {view.id for view in snapshot.runs}
        self.marked &= known
        if self.roster.index(self.awaited) is not None:
            self._before, self.chosen, self.awaited = self.chosen, self.awaited, None
        elif self.roster.index(self.chosen) is None and self.roster.index(self._before) is not None:
            # A launch was taken back: the next key is not for a neighbour that nobody chose.
            self.chosen = self._before
        index = self.roster.index(self.chosen)
        self._index = min(self._index, max(0, len(rows) - 1)) if index is None else index
        self.chosen = rows[self._index].id if rows else None

    @property
    def row(self) -> Row | None:
        """The chosen row."""
        index = self.roster.index(self.chosen)
        return None if index is None else self.roster.rows[index]

    @property
    def view(self) -> RunView | None:
        """The chosen run as listed; of a group the one in the worst health."""
        row = self.row
        return None if row is None else leader(row)

    @property
    def marks(self) -> str:
        """How many runs are marked, and how many of them are listed: a filter hides the others from every action."""
        if not self.marked:
            return ""
        listed = sum(view.id in self.marked for view in self.roster.runs)
        return f"{listed} of {len(self.marked)} marked" if listed < len(self.marked) else f"{listed} marked"

    def targets(self) -> tuple[RunView, ...]:
        """The runs an action applies to: the marked ones in list order, else the chosen one or all of its group."""
        marked = tuple(view for view in self.roster.runs if view.id in self.marked)
        row = self.row
        return marked or (members(row) if row is not None else ())

    def fold(self) -> bool:
        """Show the chosen group run by run, or the chosen run's group as one row; false when there is none."""
        row = self.row
        if isinstance(row, SeedGroup):
            self.opened.add(row.id)
            self.folded.discard(row.id)
            self.chosen = leader(row).id
            return True
        own = row.id if row is not None else None
        groups = seed_groups(self.roster.runs)
        group = next((group for group in groups if any(view.id == own for view in group.members)), None)
        if group is None:
            return False
        self.opened.discard(group.id)
        self.folded.add(group.id)
        self.awaited = group.id
        return True

    def choose(self, index: int) -> None:
        """Choose the row at `index` of the list, clamped to its ends."""
        rows = self.roster.rows
        self.awaited = self._before = None
        if rows:
            self._index = min(max(0, index), len(rows) - 1)
            self.chosen = rows[self._index].id

    def move(self, by: int) -> None:
        """Choose the run `by` places further down."""
        self.choose(self._index + by)

    def move_to(self, how: Move, *, columns: int, page: int) -> None:
        """Choose another run as a key asks, over `columns` panes side by side; 0 is a plain list, sideways are tabs."""
        sideways = {"left": -1, "right": 1}
        if how in sideways and (not columns or self.in_detail):
            self.turn_tab(sideways[how])
            return
        live = len(self.roster.live)
        down = min(columns, live - self._index) if columns and self._index < live else 1
        up = columns if columns and self._index < live else 1
        if columns and self._index < live and how == "up" and self._index < columns:
            return
        steps = sideways | {"up": -up, "down": max(1, down), "page_up": -page, "page_down": page}
        ends = {"first": 0, "last": len(self.roster.rows) - 1}
        self.choose(ends[how] if how in ends else self._index + steps[how])

    def step_back(self) -> None:
        """Undo one layer of looking: the zoom, then the marks, then the focus on the detail."""
        if self.maximised:
            self.maximised = False
        elif self.marked:
            self.marked.clear()
        else:
            self.in_detail = False

    def mark(self) -> None:
        """Mark or unmark the chosen run or group and go one down, so that several are marked in a row."""
        if (row := self.row) is not None:
            ids = {view.id for view in members(row)}
            self.marked = self.marked - ids if ids <= self.marked else self.marked | ids
            self.move(1)

    def act(self, what: str, *, panes_shown: bool) -> None:
        """Carry out one of the keys that only change how one looks, by the name of its action."""
        match what:
            case "previous tab":
                self.turn_tab(-1)
            case "next tab":
                self.turn_tab(1)
            case "next pane":
                self.in_detail = not self.in_detail
            case "mark":
                self.mark()
            case "sort left":
                self.turn_sort(-1)
            case "sort right":
                self.turn_sort(1)
            case "views":
                self.panes = not panes_shown
            case "maximise":
                self.maximised = not self.maximised
            case _:
                raise ValueError(f"no way of looking is called {what!r}")

    def turn_sort(self, by: int) -> None:
        """Sort by the column `by` places to the right."""
        sorts = self.sorts
        at = sorts.index(self.sort) if self.sort in sorts else 0
        self.sort = sorts[(at + by) % len(sorts)]

    def turn_tab(self, by: int) -> None:
        """Show the detail's tab `by` places to the right."""
        self.tab = TABS[(TABS.index(self.tab) + by) % len(TABS)]
