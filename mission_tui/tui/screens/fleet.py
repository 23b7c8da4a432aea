"""The fleet: meters on top, live runs as panes or lines, the others below, and the chosen one in detail."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.outcome import ALIVE, OVER
from mission_tui.fleet.specs.spec import is_driver
from mission_tui.fleet.views.seed_group import SeedGroup, sweep_of
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView, of_machine
from mission_tui.tui.actions import Move, Place
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, line, wrap
from mission_tui.tui.plot.content import first_history, ghost_of, turn_ghost
from mission_tui.tui.screens.snapshot_screen import (
    LEAST_HEIGHT,
    LEAST_WIDTH,
    Arrangement,
    ListAndDetail,
    SnapshotScreen,
    arrange,
    bindings,
    timeline_rows,
    wants_panes,
)
from mission_tui.tui.sections.tabs import charted
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.fleet_view_state import FleetViewState
from mission_tui.tui.state.run_data import EndedCourses, RunData, RunDataLoader, SweepResults, beside_pace_s
from mission_tui.tui.widgets.bars import AwayLines, FilterBar, Footer, Header, ReplayLine, empty_state
from mission_tui.tui.widgets.detail import Detail
from mission_tui.tui.widgets.lines import ScrollLines
from mission_tui.tui.widgets.meters import Meters
from mission_tui.tui.widgets.panes import PaneGrid, columns_for
from mission_tui.tui.widgets.run_table import RunTable
from mission_tui.tui.widgets.timeline import Timeline

_REST_S = 0.3
"""For so long the cursor stays on a run before its curves are asked for."""
_UNNOTICED_S = 0.1
"""For so long a terminal may stay empty before a person wonders."""


class FleetScreen(SnapshotScreen, inherit_bindings=False):
    """Owns the layout; what the person chose to look at is the `FleetViewState`, what there is to see the snapshot."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("fleet")]
    PLACE: ClassVar[Place] = "fleet"

    def __init__(self, app_context: AppContext, home: str, view_state: FleetViewState) -> None:
        super().__init__()
        self._app_context = app_context
        self._home = home
        self._loader = RunDataLoader(app_context, self.redraw)
        self._sweep = SweepResults(app_context, self.redraw)
        self._courses = EndedCourses(app_context)
        self.view_state = view_state
        self._arrangement = Arrangement(0, 0, listed=True)
        self._composed = False
        self._held: tuple[object, float] = (None, 0.0)
        self._moved = False
        self._rests_on = ""
        self._rested = False

    def compose(self) -> ComposeResult:
        """From top to bottom; heights are given in `redraw`."""
        yield Header("q leave  ? help", self._home)
        yield Meters()
        yield ReplayLine()
        yield AwayLines()
        yield Timeline(self._app_context)
        yield PaneGrid()
        yield ListAndDetail(self._app_context.shares, id="below")
        yield FilterBar()
        yield Footer()
        yield ScrollLines(_too_small, id="small")

    async def on_mount(self) -> None:
        """Wait a moment for the first snapshot, so that the first layout is that of the list and is painted with it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_UNNOTICED_S):
                await self._app_context.first_answer.wait()
        self.set_reactive(FleetScreen.snapshot, self._app_context.snapshot)
        self._composed = True
        self.redraw()
        # Every line has its words, and finds its size when it is painted: the first layout is the first picture.
        self.drawn = bool(self.app.size)

    def on_screen_resume(self) -> None:
        """What lay over it is gone: ask for the charts that were not seen."""
        if self._composed:
            self._draw_detail()

    def chosen(self) -> RunView | None:
        """The run under the cursor."""
        return self.view_state.view

    def targets(self) -> tuple[RunView, ...]:
        """What actions apply to: the marked runs, else the chosen one."""
        return self.view_state.targets()

    def redraw(self) -> None:
        """Settle the view state on the snapshot, share out the rows, draw."""
        width, height = self.size or self.app.size
        if not self._composed or width == 0:
            return
        small = width < LEAST_WIDTH or height < LEAST_HEIGHT
        self.set_class(small, "-small")
        if small:
            return
        if self.snapshot is not None:
            self.view_state.take_snapshot(self.snapshot, live_apart=wants_panes(width, self.view_state.panes))
        pattern = f"/{self.view_state.pattern.words}" if self.view_state.pattern else ""
        self.query_one(Header).update(
            self.snapshot, pattern, "  ".join(filter(None, (self._app_context.readonly_note, self.view_state.marks)))
        )
        # The list has a line for each machine, above its runs; without a list that is up here.
        headed = not (self.view_state.maximised and self.view_state.in_detail)
        several = self.snapshot is not None and bool(self.snapshot.hosts)
        self.query_one(Meters).update(self.snapshot, self._app_context.banner, headed=headed and several)
        self.query_one(ReplayLine).update(self.snapshot, self._app_context.replay_seek.step)
        back = self._app_context.coming_back
        away, elsewhere = (back.away, back.elsewhere) if back.shown else (None, ())
        self.query_one(AwayLines).update(away, back.best, width, elsewhere)
        self.query_one(Timeline).update(self._machine_looked_at(), timeline_rows(width, height))
        if self._share_rows(Size(width, height)) and self.is_mounted:
            # Drawn now, they would be drawn for sizes that they are about to lose.
            self.redraw_later()
        else:
            self._draw_runs()
            if self._moved:
                # The cursor is painted first: charts take longer, and a key that is held passes over most of them.
                self.call_after_refresh(self._follow)
            else:
                self._draw_detail()
        self.draw_footer()

    def _follow(self) -> None:
        """Draw the detail of the run that the cursor has come to."""
        if self._moved and self.is_mounted:
            self._moved = False
            self._draw_detail()

    def _share_rows(self, size: Size) -> bool:
        """Whether the rows of a screen of `size` are shared out otherwise than before."""
        view_state, roster = self.view_state, self.view_state.roster
        above = self.query_one(Meters).rows + self.query_one(ReplayLine).rows
        above += self.query_one(AwayLines).rows + self.query_one(Timeline).rows
        taken = 2 + above + (1 if self.query_one(FilterBar).display else 0)
        maximised = ("detail" if view_state.in_detail else "list") if view_state.maximised else None
        rows = size.height - taken
        shared = arrange(
            size.width,
            rows,
            len(roster.live),
            len(roster.rest) + len(roster.machines),
            panes=view_state.panes,
            maximised=maximised if roster.runs else None,
            shares=self._app_context.shares,
        )
        if not roster.runs and not roster.machines:
            shared = Arrangement(0, 0, listed=True)
        self.query_one(ListAndDetail).lay_out(shared, rows)
        if shared == self._arrangement:
            return False
        self._arrangement = shared
        _give_rows(self.query_one(PaneGrid), shared.panes)
        _give_rows(self.query_one(Detail), shared.detail)
        return True

    def _draw_runs(self) -> None:
        view_state, roster = self.view_state, self.view_state.roster
        at = roster.index(view_state.chosen)
        marked = frozenset(view_state.marked)
        paned = len(roster.live) if self._arrangement.panes else 0
        if paned:
            chosen = at if at is not None and at < paned else None
            views = [row for row in roster.live if isinstance(row, RunView)]
            self.query_one(PaneGrid).update(views, now=self.now, chosen=chosen, marked=marked)
        self.query_one(RunTable).update(
            roster.rows[paned:],
            now=self.now,
            chosen=at - paned if at is not None and at >= paned else None,
            marked=marked,
            sort=view_state.sort,
            varied=roster.varied,
            first=paned,
            empty=self._empty(paned),
            machines=roster.machines,
            older=bool(self._older),
        )
        if self.snapshot is not None and self.snapshot.replay is None and self._app_context.shown is self:
            self._courses.request(self.query_one(RunTable).curved, self.snapshot.supervisor)

    def _machine_looked_at(self) -> FleetSnapshot | None:
        """Of several machines that of the chosen run."""
        view, snapshot = self.view_state.view, self.snapshot
        if snapshot is None or len(snapshot.hosts) < 2:
            return snapshot
        return of_machine(snapshot, snapshot.hosts[0].name if view is None else view.host)

    @property
    def _older(self) -> int:
        """How many runs are over that no snapshot lists."""
        if self.snapshot is None:
            return 0
        return max(0, self.snapshot.ended_total - sum(view.state in OVER for view in self.snapshot.runs))

    def _empty(self, paned: int) -> list[list[Part]]:
        """What a list without a run says."""
        if self.snapshot is None:
            return []
        filtered = self.view_state.pattern is not None and bool(self.snapshot.runs)
        if paned:
            said = "no other run matches" if filtered else "no run is waiting or has ended yet"
            return [[(f"   {said}", colours.QUIET)]]
        return empty_state(
            self._app_context.presets,
            filtered=filtered,
            older=self._older,
            readonly=self._app_context.readonly,
            width=self.size.width,
            past=self.snapshot.replay is not None,
            elsewhere=self.snapshot.elsewhere,
            home=self._home,
        )

    def _draw_detail(self) -> None:
        view, view_state = self.view_state.view, self.view_state
        if view is not None and self._arrangement.detail:
            self._loader.request(view, view_state.tab)
            if view_state.tab == "learn":
                self._ask_curves(view)
            data = self._loader.data_of(view)
            self._hold_return(view, data)
            row = view_state.row
            group = row if isinstance(row, SeedGroup) else None
            # The driver of a search has its own table, and is no setting of anybody's.
            alone = self.snapshot is None or is_driver(view.preset)
            known = () if alone or self.snapshot is None else sweep_of(view, self.snapshot.runs)
            sweep = tuple(it for it in known if not is_driver(it.preset))
            if sweep and self._rested and view_state.tab == "learn":
                self._sweep.request(sweep)
            self.query_one(Detail).update(
                view,
                data,
                view_state.tab,
                self.now,
                focused=view_state.in_detail,
                group=group,
                sweep=self._sweep.of(sweep),
            )

    def _hold_return(self, view: RunView, data: RunData) -> None:
        """The chart of the return moves as seldom as those beside it, though each snapshot has its newest point: all of
        its cells go over the line each time.
        """
        which, t = self._held
        known = (view.id, view.attempt, view.state)
        if which != known or not 0 <= self.now - t < beside_pace_s(data.history.get(RETURN), view):
            first = first_history(view)
            if first is not None:
                data.history[RETURN], self._held = first, (known, self.now)

    def _ask_curves(self, view: RunView) -> None:
        """Ask for what the charts of the detail need, once the cursor has rested: of an ended run it is in a file.

        Nothing is asked for below the screen of a run, which asks for itself.
        """
        if self._rests_on != view.id:
            self._rests_on, wanted = view.id, view.id
            self._rested = False
            self.set_timer(_REST_S, lambda: self._rest(wanted))
        if not self._rested or not view.update or self._app_context.shown is not self:
            return
        size, runs = self.query_one(Detail).size, () if self.snapshot is None else self.snapshot.runs
        points, settings = max(40, 2 * size.width), self._app_context.chart
        tags = tuple(tag for row in charted(view, size.width, size.height - 1) for tag in row)
        for tag in tags:
            if tag != RETURN or view.course is None:
                self._loader.request_history(view, tag, points)
        ghost = ghost_of(view, runs, settings.ghost, settings.ghost_run)
        self._loader.request_ghost(view, ghost, settings.ghost, tags, points)

    def _rest(self, run: str) -> None:
        if run == self._rests_on and self.is_mounted:
            self._rested = True
            if not self._moved:
                self._draw_detail()

    def action_ghost(self) -> None:
        """Draw another run of the same task beside the chosen one, or none."""
        view = self.view_state.view
        if view is not None and self.snapshot is not None:
            marked = self.view_state.marked
            self._app_context.toast(turn_ghost(self._app_context.chart, view, self.snapshot.runs, marked))
            self.redraw()

    def action_move(self, how: Move) -> None:
        """Through the list, over the panes as they lie, or within the detail."""
        view_state = self.view_state
        panes = columns_for(self.size.width, len(view_state.roster.live)) if self._arrangement.panes else 0
        if view_state.in_detail and how not in ("left", "right"):
            self.query_one(Detail).move(how)
            return
        view_state.move_to(how, columns=panes, page=max(1, self.query_one(RunTable).size.height - 1))
        self._moved = True
        self.redraw()

    def action_tab(self, tab: str) -> None:
        """A tab was clicked."""
        self.view_state.tab = tab
        self.redraw()

    def action_look(self, what: str) -> None:
        """Look otherwise: another tab, pane, order, or size of things."""
        runs = () if self.snapshot is None else self.snapshot.runs
        if what == "views" and not any(view.state in ALIVE for view in runs):
            self._app_context.toast("no run is live: v shows live runs as panes or as a table")
            return
        self.view_state.act(what, panes_shown=self._arrangement.panes > 0)
        self.redraw()

    def action_fold(self) -> None:
        """A group of seeds run by run, or as one row."""
        if not self.view_state.fold():
            view = self.view_state.view
            name = view.name if view is not None else "them"
            self._app_context.toast(
                f"no runs beside {name} differ only in their seed: launch PRESET --seeds 3 makes some"
            )
        self.redraw()

    def action_open(self, tab: str) -> None:
        """Open the chosen run at `tab`; a group of seeds into its runs."""
        if tab == "learn" and isinstance(self.view_state.row, SeedGroup):
            self.action_fold()
        elif (view := self.view_state.view) is not None:
            self._app_context.open_run(view, tab)

    def action_filter(self) -> None:
        """Type a filter."""
        self.query_one(FilterBar).open()
        self.redraw()

    def action_back(self) -> None:
        """Close one layer: news of an absence, the filter, the zoom, the marks, the detail; never the program."""
        bar = self.query_one(FilterBar)
        if self._app_context.coming_back.close():
            self.redraw()
            return
        if bar.display or self.view_state.pattern is not None:
            bar.close(clear=True)
        else:
            self.view_state.step_back()
        self.redraw()

    @on(FilterBar.Changed)
    @on(FilterBar.Closed)
    def _filtered(self) -> None:
        self.view_state.pattern = self.query_one(FilterBar).pattern
        self.redraw()

    def on_run_table_picked(self, message: RunTable.Picked) -> None:
        """A click chooses; a double click opens."""
        self.view_state.choose(message.index)
        self.redraw()
        if message.twice:
            self.action_open("learn")

    def on_run_table_sort_picked(self, message: RunTable.SortPicked) -> None:
        """A click on a title sorts; a second one goes back to the order of age."""
        if message.title in self.view_state.sorts:
            self.view_state.sort = "age" if self.view_state.sort == message.title else message.title
        self.redraw()


def _too_small(width: int) -> list[Strip]:
    said = f"too small: {LEAST_WIDTH}x{LEAST_HEIGHT} at least"
    return [line([(text, colours.WARN)], width) for text in wrap(said, max(1, width))]


def _give_rows(widget: Widget, rows: int) -> None:
    """Set only what changes: being shown or hidden, even again, repaints the whole screen."""
    if widget.display != (rows > 0):
        widget.display = rows > 0
    if rows:
        widget.styles.height = rows
