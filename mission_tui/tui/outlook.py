"""What the person chose to look at on the fleet screen: the chosen run, marks, filter, order, panes or table, tab.

It outlives snapshots: when the chosen run leaves the list, the choice moves to its neighbour and not to the top.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mission_tui.fleet.snapshot import FleetSnapshot, RunView
from mission_tui.tui.moves import Move
from mission_tui.tui.roster import SORTS, Roster, muster

__all__ = ["TABS", "Outlook"]

TABS = ("learn", "health", "config", "machine", "checkpoints", "log")


@dataclass(slots=True)
class Outlook:
    """Mutable; changed by keys and settled against every snapshot. An `awaited` run is chosen once it is listed."""

    chosen: str | None = None
    awaited: str | None = None
    marked: set[str] = field(default_factory=set)
    pattern: re.Pattern[str] | None = None
    sort: str = "age"
    panes: bool | None = None
    tab: str = TABS[0]
    maximised: bool = False
    in_detail: bool = False
    roster: Roster = field(default_factory=Roster)
    _index: int = 0

    def settle(self, snapshot: FleetSnapshot) -> None:
        """Take over `snapshot`: list it again, keep the choice, forget marks of runs that are gone."""
        self.roster = muster(snapshot, self.pattern, self.sort)
        runs = self.roster.runs
        known = {view.id for view in snapshot.runs}
        self.marked &= known
        if self.roster.index(self.awaited) is not None:
            self.chosen, self.awaited = self.awaited, None
        index = self.roster.index(self.chosen)
        self._index = min(self._index, max(0, len(runs) - 1)) if index is None else index
        self.chosen = runs[self._index].id if runs else None

    @property
    def view(self) -> RunView | None:
        """The chosen run as listed."""
        index = self.roster.index(self.chosen)
        return None if index is None else self.roster.runs[index]

    def targets(self) -> tuple[RunView, ...]:
        """The runs an action applies to: the marked ones in list order, else the chosen one."""
        marked = tuple(view for view in self.roster.runs if view.id in self.marked)
        chosen = self.view
        return marked or ((chosen,) if chosen else ())

    def choose(self, index: int) -> None:
        """Choose the run at `index` of the list, clamped to its ends."""
        runs = self.roster.runs
        self.awaited = None
        if runs:
            self._index = min(max(0, index), len(runs) - 1)
            self.chosen = runs[self._index].id

    def move(self, by: int) -> None:
        """Choose the run `by` places further down."""
        self.choose(self._index + by)

    def go(self, how: Move, *, columns: int, page: int) -> None:
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
        ends = {"first": 0, "last": len(self.roster.runs) - 1}
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
        """Mark or unmark the chosen run and go one down, so that several are marked in a row."""
        if self.chosen is not None:
            self.marked ^= {self.chosen}
            self.move(1)

    def look(self, what: str, *, panes_shown: bool) -> None:
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
        self.sort = SORTS[(SORTS.index(self.sort) + by) % len(SORTS)]

    def turn_tab(self, by: int) -> None:
        """Show the detail's tab `by` places to the right."""
        self.tab = TABS[(TABS.index(self.tab) + by) % len(TABS)]
