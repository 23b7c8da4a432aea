"""One run: a big chart of any metric, findings, configuration, checkpoints and the log, kept fresh. And what keys do
in some of its tabs: compare settings with its preset or another run, and copy what is shown.

Whole lines are copied, as one reads them. Nothing hidden goes along.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets._toast import Toast

from mission_tui.errors import MissionError
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.views.played_frame import Canvas
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import GetDetails
from mission_tui.present import numbers
from mission_tui.present.run_settings import OF_A_COMMAND
from mission_tui.present.run_state import state_word
from mission_tui.tui.actions import Move, Place
from mission_tui.tui.drawing.strips import literal
from mission_tui.tui.plot.content import ghost_of, turn_ghost
from mission_tui.tui.screens.questions import Choice, Picker
from mission_tui.tui.screens.sheets import still_open
from mission_tui.tui.screens.snapshot_screen import LEAST_HEIGHT, LEAST_WIDTH, SnapshotScreen, bindings
from mission_tui.tui.screens.watch import PlayAct, Player, RunPlayer
from mission_tui.tui.sections.details import Other, held_against
from mission_tui.tui.sections.tabs import search_of, section
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.filter_pattern import FilterPattern
from mission_tui.tui.state.fleet_view_state import RUN_TABS
from mission_tui.tui.state.run_data import RunDataLoader
from mission_tui.tui.widgets.bars import FilterBar, Footer, Header, ReplayLine
from mission_tui.tui.widgets.curves import ChartAct, Curves, MetricList
from mission_tui.tui.widgets.detail import RunHead, tab_line
from mission_tui.tui.widgets.findings import Findings
from mission_tui.tui.widgets.lines import ScrollLines
from mission_tui.tui.widgets.log_lines import LogLines, LogSearch
from mission_tui.tui.widgets.meters import calm_share

_WIDE = 120
_SECTIONS = ("config", "machine", "episodes", "journal", "checkpoints")


_GONE = ("not there any more: it was removed, or its folder was; this is how it stood last", "at this time not there")
"""What is said of a run that the newest snapshot lacks: of the fleet as it is, and in a replay."""


class RunScreen(SnapshotScreen, inherit_bindings=False):
    """Shows the run whose view it was opened with; an update of the fleet brings its newest view."""

    CSS_PATH = "run.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("run")]
    PLACE: ClassVar[Place] = "run"

    def __init__(self, app_context: AppContext, view: RunView, tab: str, home: str) -> None:
        super().__init__()
        self._app_context = app_context
        self._view = view
        self._tab = tab
        self._home = home
        self._loader = RunDataLoader(app_context, self._answered)
        self._back = LogSearch(self._loader, app_context.toast, self._draw_body)
        self._diff_target = ConfigDiffTarget(app_context, self._answered)
        self._pattern: FilterPattern | None = None
        self._laid_out: object = None
        self._player = RunPlayer(app_context, view.id, self._player_widget, self._canvas)

    def compose(self) -> ComposeResult:
        """Headline, tabs, and one body per kind of tab, of which one is displayed."""
        yield Header("Esc back  ? help", self._home)
        yield ReplayLine()
        yield RunHead()
        yield ScrollLines(id="tabs")
        yield Curves(self._app_context.chart, self._app_context.shares)
        yield Findings(self._app_context.shares)
        yield ScrollLines(id="section")
        yield Player(self._player.feed.wake)
        yield LogLines(folds=self._app_context.log_folds)
        yield FilterBar()
        yield Footer()

    def on_mount(self) -> None:
        """Draw what is known; the rest is asked for."""
        self.set_reactive(RunScreen.snapshot, self._app_context.snapshot)
        self.action_open(self._tab)

    def on_unmount(self) -> None:
        """End the player."""
        self._player.close()

    def on_screen_suspend(self) -> None:
        """Something lies over it."""
        self._player.cover()

    def on_screen_resume(self) -> None:
        """What lay over it is gone."""
        self._player.feed.uncovered()

    def _player_widget(self) -> Player | None:
        return self.query_one(Player) if still_open(self) else None

    def _canvas(self) -> Canvas | None:
        """Nothing is played behind a sheet: there every changed cell has the whole screen painted again."""
        if self._tab != "watch" or not still_open(self) or self.app.screen is not self:
            return None
        context, player = self._app_context, self.query_one(Player)
        cell = context.picture_cell() if context.watch_pixels == "auto" else None
        if cell is not None and any(toast.region.overlaps(player.region) for toast in self.query(Toast)):
            cell = None  # pixels would lie over the toast
        return player.canvas(context.picture_colours(), cell, context.pixel_protocol())

    def play_again(self, checkpoint: str, seed: int) -> None:
        """Show this episode, at once where it is shown, else as the first."""
        self._player.play_again(checkpoint, seed)
        if self.is_mounted:
            self.action_open("watch")

    def plays_since(self, steps: int) -> bool:
        """Whether an episode is seen that is over or so many steps long, or it is said why none is."""
        return self._player.plays_since(steps)

    def chosen(self) -> RunView:
        """The run of this screen."""
        return self._view

    def finding(self) -> Finding | None:
        """On the tab of findings the one under the cursor; elsewhere the worst."""
        return self.query_one(Findings).finding if self._tab == "health" else super().finding()

    def redraw(self) -> None:
        """Draw everything that is displayed and ask for what it lacks."""
        width, height = self.size
        if not self.is_mounted or width == 0:
            return
        found = self._app_context.view(self._view.id)
        self._view = found or self._view
        self.set_class(width < LEAST_WIDTH or height < LEAST_HEIGHT, "-small")
        self.set_class(width >= _WIDE, "-wide")
        self.query_one(Header).update(self.snapshot, note=self._app_context.readonly_note)
        self.query_one(ReplayLine).update(self.snapshot, self._app_context.replay_seek.step)
        gone = None if found is not None or self.snapshot is None else _GONE[self.snapshot.replay is not None]
        self.query_one(RunHead).update(self._view, self.now, gone or self._app_context.banner)
        points = min(2000, max(40, 2 * width))
        if self._tab == "learn":
            points = self._prepare_curves()
        for series in self._series():
            self._loader.request(self._view, self._tab, series, points)
        if self._tab in ("learn", "machine"):
            self._loader.request_summaries(self._view)
        self._draw_body()
        self._read_off()
        if self._tab == "health" and (finding := self.finding()) is not None:
            self._loader.request_evidence(self._view, finding, points)
        self.draw_footer()

    def _prepare_curves(self) -> int:
        """Tell the charts what they show and ask for the ghost; returns how many values of a history they need."""
        curves = self.query_one(Curves)
        curves.take(self._view, self._loader.data_of(self._view), self.now)
        runs = () if self.snapshot is None else self.snapshot.runs
        settings = self._app_context.chart
        ghost = ghost_of(self._view, runs, settings.ghost, settings.ghost_run)
        self._loader.request_ghost(self._view, ghost, settings.ghost, curves.tags, curves.points)
        return curves.points

    def _series(self) -> list[tuple[str, ...]]:
        """The series that are asked for together; an empty question is about the rest of the tab."""
        curves = self.query_one(Curves)
        if self._tab == "learn":
            return [curves.tags] if curves.walled else [(tag,) for tag in curves.tags]
        return [(RETURN,)] if self._tab == "watch" else [()]

    def _answered(self) -> None:
        if still_open(self):
            self._back.answered(self.query_one(LogLines))
            self._draw_body()
            self._read_off()

    def _read_off(self) -> None:
        curves = self.query_one(Curves)
        if self._tab != "learn":
            return
        if curves.unread is not None:
            self._loader.request_exact(self._view, curves.unread, curves.tags)
        self._loader.request_ahead(self._view, curves.ahead, curves.points)

    def _draw_body(self) -> None:
        view, data, tab = self._view, self._loader.data_of(self._view), self._tab
        note = ""
        searches = tab == "learn" and search_of(data) is not None
        if tab == "learn":
            self.query_one(Curves).display, self.query_one("#section").display = not searches, searches
        if tab == "learn" and not searches:
            self._draw_curves()
        elif tab == "log":
            log, tail = self.query_one(LogLines), data.log
            if tail.attempt is None:
                log.update([data.trouble or "asking…"], self._pattern)
            elif not self._back.busy:
                log.update(tail.lines, self._pattern, tail.stretch, detached=tail.detached)
        elif tab == "health":
            calm = "" if data.details is None else calm_share(self.snapshot, view, data.details)
            findings = self.query_one(Findings)
            note = findings.update(view, data, self.now, self._pattern, calm)
            self._laid_out = findings.laid_out
            self.call_after_refresh(self._settle)
        elif tab == "watch":
            self._player.update(view, data)
        else:
            body, now = self.query_one("#section", ScrollLines), self.now
            if tab == "config" and (details := data.details) is not None:
                body.set(lambda width: held_against(details, self._diff_target.other, width))
            else:
                body.set(lambda width: section(tab, view, data, width, body.size.height, now))
            note = body.place
        self.query_one("#tabs", ScrollLines).set(
            lambda width: [tab_line(view, tab, width, focused=False, note=note, named=False, names=RUN_TABS)]
        )

    def _settle(self) -> None:
        """What is in sight of the findings is known once they have the rows that they asked for: draw it again then."""
        if still_open(self) and self._tab == "health" and self.query_one(Findings).laid_out != self._laid_out:
            self._draw_body()

    def action_open(self, tab: str) -> None:
        """Display the body of `tab`."""
        self._back.give_up()
        if tab != self._tab and self._pattern is not None:
            self.query_one(FilterBar).close(clear=True)
        self._tab = tab
        if tab != "watch":
            self._player.close()
        self.query_one(Player).display = tab == "watch"
        self.query_one(Curves).display = tab == "learn"
        self.query_one(LogLines).display = tab == "log"
        body = self.query_one("#section", ScrollLines)
        self.query_one(Findings).display = tab == "health"
        body.display = tab in _SECTIONS
        body.move("first")
        self.call_after_refresh(self.redraw)

    def action_tab(self, tab: str) -> None:
        """A tab was clicked."""
        self.action_open(tab)

    def action_move(self, how: Move) -> None:
        """Left and right turn tabs; everything else moves within the tab."""
        searches = search_of(self._loader.data_of(self._view)) is not None
        if self._tab == "learn" and not searches and self.query_one(Curves).move(how):
            return
        if self._tab == "watch" and how in ("first", "last"):
            self._player.act("oldest" if how == "first" else "newest")
            return
        if how in ("left", "right"):
            self._turn(1 if how == "right" else -1)
        elif self._tab == "health":
            self.query_one(Findings).move(how)
        elif self._tab == "log":
            self.query_one(LogLines).move(how)
            self._draw_body()
        else:
            self.query_one("#section", ScrollLines).move(how)
            self._draw_body()

    def action_chart(self, what: ChartAct) -> None:
        """Draw the chart otherwise; where it is not shown, show it."""
        if self._tab != "learn":
            self.action_open("learn")
        elif refused := self.query_one(Curves).act(what):
            self._app_context.toast(refused, "warning")

    def action_ghost(self) -> None:
        """Draw another run of the same task beside this one, or none."""
        runs = () if self.snapshot is None else self.snapshot.runs
        self._app_context.toast(turn_ghost(self._app_context.chart, self._view, runs))
        self.redraw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that play mean something in their tab alone; elsewhere they are what else they are."""
        return self._tab == "watch" if action == "play" else super().check_action(action, parameters)

    def action_play(self, what: PlayAct) -> None:
        """Play otherwise."""
        self._player.act(what)

    def action_look(self, what: str) -> None:
        """The tab beside this one, or only the body of it, or everything again."""
        if what == "maximise":
            self.toggle_class("-maximised")
            self.call_after_refresh(self.redraw)
        else:
            self._turn(1 if what == "next tab" else -1)

    def _turn(self, by: int) -> None:
        self.action_open(RUN_TABS[(RUN_TABS.index(self._tab) + by) % len(RUN_TABS)])

    def action_body(self, what: str) -> None:
        """What only some tabs can do."""
        if what == "copy":
            copy_lines(self._app_context, *lines_of(self, self._tab))
        elif what == "turn" and self._tab == "config":
            self._app_context.carry_out(self._diff_target.turn(self._view))
        elif self._tab != "log":
            self._app_context.toast("this key is for the log: l shows it")
        elif what == "turn":
            self._app_context.log_folds = self.query_one(LogLines).turn_folding()
        else:
            log, tail = self.query_one(LogLines), self._loader.data_of(self._view).log
            self._back.jump(log, tail, -1 if what == "before" else 1)

    def action_filter(self) -> None:
        """Search in the findings where they are shown, else in the log."""
        if self._tab != "health":
            self.action_open("log")
        self.query_one(FilterBar).open()

    def action_back(self) -> None:
        """One layer: the search, then the crosshair, then the zoom, then this screen."""
        bar = self.query_one(FilterBar)
        if bar.display or self._pattern is not None:
            bar.close(clear=True)
        elif self._tab == "learn" and self.query_one(Curves).release():
            return
        elif self.has_class("-maximised"):
            self.action_look("maximise")
        else:
            self.dismiss(None)

    @on(FilterBar.Changed)
    @on(FilterBar.Closed)
    @on(Findings.EvidenceNeeded)
    def _wanted_otherwise(self) -> None:
        self._pattern = self.query_one(FilterBar).pattern
        self.redraw()

    @on(Findings.RoomChanged)
    def _other_room(self) -> None:
        """Whether the chart has its place, too, depends on it."""
        if self._tab == "health" and still_open(self):
            self._draw_body()

    @on(Curves.DataNeeded)
    def _other_curves(self) -> None:
        """What stands around the charts is as it was."""
        if self._tab != "learn" or not still_open(self) or self.size.width == 0:
            return
        points = self._prepare_curves()
        for series in self._series():
            self._loader.request(self._view, self._tab, series, points)
        self._draw_curves()
        self._read_off()

    def _draw_curves(self) -> None:
        data = self._loader.data_of(self._view)
        self.query_one(Curves).update(self._view, data, self.now)
        self.query_one(MetricList).trace(data.summaries)

    @on(LogLines.PageNeeded)
    def _other_output(self, message: LogLines.PageNeeded) -> None:
        self._back.give_up()
        self._loader.request_log(message.where)


MOST_BYTES = 48 << 10
"""Encoded for the terminal a third more; many terminals drop a longer sequence without a word."""


class ConfigDiffTarget:
    """`other` is None while every setting is shown. `changed` is called when it is another one."""

    def __init__(self, app_context: AppContext, changed: Callable[[], None]) -> None:
        self._app_context = app_context
        self._changed = changed
        self.other: Other | None = None

    async def turn(self, view: RunView) -> None:
        """To its preset, then to a run that the person picks, then back to every setting."""
        if self.other is None and view.preset != OF_A_COMMAND:
            self.other = await asyncio.to_thread(self._preset, view)
        elif (self.other is None or not self.other.run) and (run := await self._pick(view)) is not None:
            self.other = await self._run(run)
        else:
            self.other = None
        self._changed()

    def _preset(self, view: RunView) -> Other:
        name = f"preset {view.preset} as it is now"
        try:
            (spec, *_) = self._app_context.resolve(view.preset, ())
        except MissionError as error:
            return Other(name, None, trouble=str(error))
        return Other(name, spec)

    async def _pick(self, view: RunView) -> RunView | None:
        runs = self._app_context.snapshot.runs if self._app_context.snapshot else ()
        choices = [Choice(it.id, it.name, f"{state_word(it)}  {it.preset}") for it in runs if it.id != view.id]
        if not choices:
            self._app_context.refuse("there is no other run to compare with")
            return None
        taken = await self._app_context.ask_user(
            Picker(f"Compare the settings of {view.name} with", choices, typed=True)
        )
        return None if taken is None else self._app_context.view(taken)

    async def _run(self, run: RunView) -> Other:
        try:
            details = await self._app_context.ask(lambda id_: GetDetails(id=id_, run=run.id))
        except MissionError as error:
            return Other(run.name, None, run=True, trouble=str(error))
        return Other(run.name, details.spec, details.effective, run=True)


def lines_of(screen: Screen[None], tab: str) -> tuple[str, list[str]]:
    """What `tab` has to copy, in words, and its lines."""
    match tab:
        case "log":
            return screen.query_one(LogLines).to_copy()
        case "learn":
            lines = screen.query_one(MetricList).to_copy()
            return f"{len(lines)} metrics", lines
        case "watch":
            lines = screen.query_one(Player).text()
            return f"{len(lines)} lines of watch", lines
        case _:
            chosen = "#readings" if screen.query_one(Findings).finding is None else "#finding-text"
            lines = screen.query_one(chosen if tab == "health" else "#section", ScrollLines).text()
            return f"{numbers.count(len(lines))} lines of {tab}", lines


def copy_lines(app_context: AppContext, what: str, lines: list[str]) -> None:
    """Put `lines` on the terminal's clipboard and say so; of too many the last."""
    kept: list[str] = []
    size_bytes = 0
    for text in reversed([literal(text) for text in lines]):
        grown = size_bytes + len(text.encode(errors="replace")) + 1
        if grown > MOST_BYTES:
            break
        kept.append(text)
        size_bytes = grown
    if not kept:
        app_context.toast(
            "nothing to copy here" if not lines else "its last line is too long for the terminal's clipboard"
        )
        return
    app_context.copy("\n".join(reversed(kept)) + "\n")
    cut = "" if len(kept) == len(lines) else f", the last {numbers.count(len(kept))} of them,"
    app_context.toast(f"copied {what}{cut} ({numbers.size(size_bytes)}) to the terminal's clipboard")
