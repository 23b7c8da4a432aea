"""What the person chose to look at on the fleet screen: the chosen run, marks, filter, order, panes or table, tab.

It outlives snapshots: when the chosen run leaves the list, the choice moves to its neighbour and not to the top.
"""

from __future__ import annotations

from msgspec import Struct, field

from mission_tui.fleet.views.seed_group import SeedGroup, seed_groups
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
from mission_tui.tui.actions import Move
from mission_tui.tui.state.filter_pattern import FilterPattern
from mission_tui.tui.state.roster import SORTS, Roster, Row, leader, list_rows, members

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
