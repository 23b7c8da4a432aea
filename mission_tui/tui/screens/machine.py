"""The machine: the strip with the phases of all runs, and below it what host, GPUs and runs are at now."""

from __future__ import annotations

from typing import ClassVar

from msgspec import structs
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Region
from textual.strip import Strip

from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView, of_machine
from mission_tui.tui.actions import Move, Place, rows_by
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line
from mission_tui.tui.screens.snapshot_screen import SnapshotScreen, bindings
from mission_tui.tui.sections.machine import RUN_SORTS, machine_lines, runs_on
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.preferences import Split, split_of
from mission_tui.tui.widgets.bars import Footer, Header
from mission_tui.tui.widgets.lines import ScrollLines, SplitContainer
from mission_tui.tui.widgets.meters import machine_line
from mission_tui.tui.widgets.timeline import Timeline

_STRIP_FROM = 16
_STRIP_LEAST, _LINES_LEAST = 3, 6


class StripAndLines(SplitContainer):
    """The strip above the tables; it takes no more rows than it fills."""

    def strip_rows(self, whole: int) -> int:
        """How many of `whole` rows it may take."""
        chosen = self.shares.cells("strip", whole, _STRIP_LEAST, _LINES_LEAST)
        return whole // 3 if chosen is None else chosen

    def split(self) -> Split | None:
        """Where the strip is shown."""
        strip = self.query_one(Timeline)
        if not strip.display:
            return None
        at, whole = strip.region, self.size.height
        grip = Region(at.x, at.bottom, at.width, 1)
        split = split_of("strip", at, grip, whole, least=_STRIP_LEAST, other_least=_LINES_LEAST)
        return structs.replace(split, most=max(split.least, min(split.most, strip.wanted_rows)))


class MachineScreen(SnapshotScreen, inherit_bindings=False):
    """Keys apply to the run under the cursor, which stays with its run while the order changes."""

    CSS_PATH = "machine.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("machine")]
    PLACE: ClassVar[Place] = "machine"

    def __init__(self, app_context: AppContext, chosen: RunView | None) -> None:
        super().__init__()
        self._app_context = app_context
        self._chosen = chosen.id if chosen else None
        self._machine = chosen.host if chosen else ""
        self._at = 0
        self._sort = app_context.machine_sort if app_context.machine_sort in RUN_SORTS else RUN_SORTS[0]
        self._alone = False
        self._runs: list[RunView] = []
        self._cursor: int | None = None

    def compose(self) -> ComposeResult:
        """The strip gives way to the tables on a low screen."""
        yield Header("Esc back  ? help", self._app_context.home)
        with StripAndLines(self._app_context.shares, id="machine-parts"):
            yield Timeline(self._app_context)
            yield ScrollLines(self._lines, id="machine-lines")
        yield Footer()

    def on_mount(self) -> None:
        """Draw what is known."""
        self.set_reactive(MachineScreen.snapshot, self._app_context.snapshot)
        self.redraw_later()

    def chosen(self) -> RunView | None:
        """The run under the cursor."""
        return self._runs[self._at] if self._runs else None

    def redraw(self) -> None:
        """Settle the cursor on the snapshot and draw."""
        width, height = self.size
        if not self.is_mounted or width == 0:
            return
        self._settle()
        shown = self._shown
        rows = self.query_one(StripAndLines).strip_rows(height - 2) if height >= _STRIP_FROM and not self._alone else 0
        self.query_one(Header).update(shown, note=self._app_context.readonly_note)
        self.query_one(Timeline).update(shown, rows)
        self.query_one("#machine-lines", ScrollLines).redraw()
        self.draw_footer()

    @property
    def _shown(self) -> FleetSnapshot | None:
        """Of several machines that of the run from which one came, else the first."""
        if self.snapshot is None or not self.snapshot.hosts:
            return self.snapshot
        return of_machine(self.snapshot, self._machine or self.snapshot.hosts[0].name)

    def _settle(self) -> None:
        shown = self._shown
        self._runs = [] if shown is None else runs_on(shown, self._sort)
        at = next((place for place, view in enumerate(self._runs) if view.id == self._chosen), self._at)
        self._at = max(0, min(at, len(self._runs) - 1))
        self._chosen = self._runs[self._at].id if self._runs else None

    def _lines(self, width: int) -> list[Strip]:
        shown = self._shown
        if shown is None:
            return [line([(f" {self._app_context.banner or 'connecting to the supervisor…'}", colours.QUIET)], width)]
        strips, self._cursor = machine_lines(
            shown,
            self._runs,
            width,
            sort=self._sort,
            chosen=self._chosen,
            told=self.query_one(Timeline).sentences,
        )
        if shown.hosts and shown.hosts[0].lost_t is not None:
            strips.insert(0, machine_line(shown.hosts[0], shown.t, width))
        if self._app_context.banner is not None:
            strips.insert(0, line([(f" ▲ {self._app_context.banner}", colours.WARN)], width))
        return strips

    def action_move(self, how: Move) -> None:
        """The cursor goes through the runs and takes the window with it; at their ends the lines scroll."""
        body = self.query_one("#machine-lines", ScrollLines)
        to = max(0, min(self._at + rows_by(how, 0, len(self._runs)), len(self._runs) - 1))
        if to == self._at:
            body.move(how)
            return
        self._at, self._chosen = to, self._runs[to].id
        self.redraw()
        # What stands before the first run and after the last one is seen with them where there is room.
        end = [0 if to == 0 else -1] if to in (0, len(self._runs) - 1) else []
        body.reveal(*end, *([] if self._cursor is None else [self._cursor]))

    def action_choose(self, run: str) -> None:
        """A run was clicked."""
        self._chosen = run
        self.redraw()

    def action_sort(self, title: str) -> None:
        """A title was clicked; a second click goes back to the order of age."""
        self._sort_by(RUN_SORTS[0] if self._sort == title else title)
        self.redraw()

    def _sort_by(self, title: str) -> None:
        self._sort = self._app_context.machine_sort = title

    def action_look(self, what: str) -> None:
        """Another order, or the tables alone."""
        if what == "maximise":
            self._alone = not self._alone
        else:
            at = RUN_SORTS.index(self._sort) + (1 if what == "sort right" else -1)
            self._sort_by(RUN_SORTS[at % len(RUN_SORTS)])
        self.redraw()

    def action_open(self, tab: str) -> None:
        """Open the run under the cursor at `tab`."""
        if (view := self.chosen()) is not None:
            self._app_context.open_run(view, tab)

    def action_back(self) -> None:
        """One layer: the tables alone, then this screen."""
        if self._alone:
            self.action_look("maximise")
        else:
            self.dismiss(None)
