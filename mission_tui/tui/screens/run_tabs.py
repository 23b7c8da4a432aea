"""The tab `watch` of a run, where its policy plays: the widget, drawn anew with every frame, what its keys do, and when
there is something to play. And what keys do in the other tabs: compare settings with its preset or another run, and
copy what is shown.

Whole lines are copied, as one reads them. Nothing hidden goes along.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal

from textual import events
from textual.screen import Screen

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.commands import objection, refusal
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.views.played_frame import Canvas, Colours, Protocol
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import CheckpointView
from mission_tui.ipc.requests import Act, GetDetails
from mission_tui.present import numbers
from mission_tui.present.run_settings import OF_A_COMMAND
from mission_tui.present.run_state import state_word
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import literal
from mission_tui.tui.screens.questions import Picker, ask_line, type_command
from mission_tui.tui.screens.sheets import EvaluationScreen, reel_in, reel_words
from mission_tui.tui.sections.details import Other
from mission_tui.tui.sections.watch import WatchView, picture_room, watch_lines
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.player_feed import PlayerFeed
from mission_tui.tui.state.run_data import RunData
from mission_tui.tui.terminal.pixels import Placed
from mission_tui.tui.widgets.choices import Choice
from mission_tui.tui.widgets.curves import MetricList
from mission_tui.tui.widgets.findings import Findings
from mission_tui.tui.widgets.lines import Lines, ScrollLines
from mission_tui.tui.widgets.log_lines import LogLines

_LEAST_COLUMNS, _LEAST_LINES = 12, 4
_NUMBERS_ONLY = Canvas(columns=1, lines=1)


class Player(Lines):
    """Draws what it was shown last; `laid_out` is called whenever there may be another room for pictures."""

    def __init__(self, laid_out: Callable[[], None]) -> None:
        super().__init__(id="player")
        self._laid_out = laid_out
        self._shown: WatchView | None = None

    def on_resize(self, _event: events.Resize) -> None:
        """The first one comes once the tab is shown: nothing can be played before."""
        self._laid_out()

    def canvas(self, shades: Colours, cell: tuple[int, int] | None = None, pixels: Protocol = "kitty") -> Canvas | None:
        """The room for pictures; None before there is a layout. Where it is too small for one, a cell."""
        if not self.display or self.size.width == 0:
            return None
        columns, lines = picture_room(self.size.width, self.size.height)
        if columns < _LEAST_COLUMNS or lines < _LEAST_LINES:
            return _NUMBERS_ONLY
        return Canvas(columns=min(columns, 1000), lines=min(lines, 1000), colours=shades, cell=cell, pixels=pixels)

    def placed(self, canvas: Canvas | None) -> Placed | None:
        """Where on the screen the pixels of the newest frame belong, of a canvas that takes some."""
        frame = None if self._shown is None else self._shown.frame
        if frame is None or frame.pixels is None or canvas is None or canvas.cell is None:
            return None
        columns, lines = canvas.fitting(frame.pixels.width, frame.pixels.height)
        x, y = self.region.x + 1 + (canvas.columns - columns) // 2, self.region.y + (canvas.lines - lines) // 2
        return Placed(frame.pixels.png, x, y, columns, lines, frame.pixels.sixels, colours.PALETTE.ground)

    def update(self, shown: WatchView) -> None:
        """Draw `shown`."""
        self._shown = shown
        self.redraw()

    def redraw(self) -> None:
        """Picture and numbers in the present size."""
        width, height = self.size
        if width > 0 and self._shown is not None:
            self.show(watch_lines(self._shown, width, height))

    def text(self) -> list[str]:
        """What is shown, as words."""
        return [strip.text.rstrip() for strip in self._strips]


PlayAct = Literal[
    "hold", "step", "faster", "slower", "next", "seed", "reel", "pixels", "older", "newer", "oldest", "newest"
]
_TOP_SEED = 2**32 - 1


class RunPlayer:
    """One for each screen of a run. `widget` is where it draws, None once the screen is left, before it has closed.

    `canvas` is how large a picture may be now; None while none could be seen.
    """

    def __init__(
        self,
        app_context: AppContext,
        run: str,
        widget: Callable[[], Player | None],
        canvas: Callable[[], Canvas | None],
    ) -> None:
        self._app_context, self._widget = app_context, widget
        self.feed = PlayerFeed(app_context, run, canvas, self._draw)
        self._view: RunView | None = None
        self._data: RunData | None = None
        self._against = ""
        self._asked_of: int | None = None

    def update(self, view: RunView, data: RunData) -> None:
        """Show the newest of the run, and play if it can be played."""
        self._view, self._data = view, data
        self._against = self._objection(view)
        if view.last_checkpoint is None and self._saves(view) and self._asked_of != view.attempt:
            self._asked_of = view.attempt
            self._app_context.carry_out(self._save())
        if self._against:
            self.feed.close()
        elif not self.feed.open:
            self.feed.start()
        self.feed.wake()
        self._draw()

    def close(self) -> None:
        """The tab is left."""
        self.feed.close()
        self.cover()

    def play_again(self, checkpoint: str, seed: int) -> None:
        """Play the episode of `seed` with that checkpoint, as the first where nothing plays yet."""
        if self.feed.open:
            self.feed.take(checkpoint)
            self.feed.reset(seed)
        else:
            self.feed.begin_with(checkpoint, seed)

    def plays_since(self, steps: int) -> bool:
        """Whether an episode is seen that is over or so many steps long, or it is said why none is."""
        frame = self.feed.frame
        return bool(self._against or self.feed.trouble) or (frame is not None and (frame.over or frame.step >= steps))

    def cover(self) -> None:
        """Something lies over the tab: pixels would lie over that."""
        self._app_context.show_picture(None)

    def act(self, what: PlayAct) -> None:
        """Carry out a key of the tab."""
        if self._against:
            if what in ("seed", "reel"):
                self._app_context.refuse(self._against)
            return
        feed = self.feed
        match what:
            case "hold":
                feed.hold()
            case "step":
                feed.step()
            case "faster":
                feed.turn(1)
            case "slower":
                feed.turn(-1)
            case "next" if feed.trouble:
                feed.again()
            case "next":
                feed.next_episode()
            case "seed":
                self._app_context.carry_out(self._type_seed())
            case "pixels":
                self._turn_pixels()
            case "reel":
                self._app_context.carry_out(self._choose_reel())
            case _:
                self._slide(what)

    def _turn_pixels(self) -> None:
        context = self._app_context
        if context.watch_pixels == "off":
            context.watch_pixels = "auto"
            here = context.picture_cell() is not None
            context.toast("in pixels" if here else "in pixels where the terminal and its line allow that: not here")
        else:
            context.watch_pixels = "off"
            context.toast("in characters and half blocks")
        self.feed.wake()
        self._draw()

    def _slide(self, what: PlayAct) -> None:
        names = [row.name for row in self._checkpoints()]
        by = {"older": -1, "newer": 1, "oldest": -len(names), "newest": len(names)}[what]
        if (taken := self.feed.beside(names, by)) is not None:
            self.feed.take(taken)

    async def _type_seed(self) -> None:
        async def begin(said: str) -> None:
            if not said.isascii() or not said.isdigit() or int(said) > _TOP_SEED:
                raise UsageError(f"a seed is a whole number from 0 to {_TOP_SEED}, not '{said}'")
            self.feed.reset(int(said))

        about = "The episode of this seed, as `mission-tui evaluate --episodes 1 --seed` plays it."
        await ask_line(self._app_context, "Seed of the episode", about, "plays it", "10000", begin)

    async def _choose_reel(self) -> None:
        """Play an episode again that an evaluation found, look for such episodes, or film what is seen."""
        view, frame = self._view, self.feed.frame
        if view is None or frame is None:
            self._app_context.refuse("nothing has been played yet: f works from the first picture on")
            return
        choices = [
            Choice(f"play {at} {name}", f"the {name}", f"{reel_words(it)}, of {_whose(judged)}", name[0])
            for at, judged in self._judged(frame.checkpoint)[:1]
            for name, it in reel_in(judged).items()
        ]
        found = "play 30 episodes with this policy to find its best, median and worst"
        choices.append(Choice("evaluate", "evaluate", found, "e"))
        choices.append(
            Choice("film one", "film this episode", f"seed {frame.seed} by {frame.checkpoint}, as a GIF", "f")
        )
        if len(self._checkpoints()) > 1:
            growth = "this episode by every checkpoint, side by side"
            choices.append(Choice("film all", "film the growth", growth, "g"))
        taken = await self._app_context.ask_user(Picker("Reel and films", choices, typed=False))
        what, _, which = (taken or "").partition(" ")
        if what == "play":
            at, _, name = which.partition(" ")
            judged = self._evaluations()[int(at)]
            self.play_again(_whose(judged), reel_in(judged)[name]["seed"])
        elif what == "evaluate":
            evaluation = EvaluationScreen(self._app_context, view, frame.checkpoint)
            if (chosen := await self._app_context.ask_user(evaluation)) is not None:
                self.play_again(chosen.checkpoint, chosen.seed)
        elif what == "film":
            whose = "all" if which == "all" else frame.checkpoint
            line = f"film {view.id} --checkpoints {whose} --seed {frame.seed} --out {view.id}.gif"
            await type_command(self._app_context, line)

    def _evaluations(self) -> tuple[dict[str, Any], ...]:
        details = None if self._data is None else self._data.details
        return () if details is None else details.evaluations

    def _judged(self, checkpoint: str) -> list[tuple[int, dict[str, Any]]]:
        """Evaluations with a reel, and where they stand: those of `checkpoint` first, and the newest of them."""
        known = {row.name for row in self._checkpoints()}
        kept = [pair for pair in enumerate(self._evaluations()) if reel_in(pair[1]) and _whose(pair[1]) in known]
        return sorted(kept, key=lambda pair: (_whose(pair[1]) != checkpoint, -pair[0]))

    def _objection(self, view: RunView) -> str:
        """Why nothing is played, in words; empty when something is."""
        context = self._app_context
        if context.snapshot is not None and context.snapshot.replay is not None:
            return "a replay shows the past and starts nothing, so no policy is played here: H goes to now"
        if context.readonly:
            return "this screen is read-only and starts no process, so no policy is played here"
        if (against := refusal(view.can, "evaluate")) is not None:
            return f"nothing to watch: {against}"
        if view.last_checkpoint is None:
            if view.state in OVER:
                return "no checkpoint to be played: nothing was saved"
            wait = "one was asked for, is saved at the next update, and plays then"
            later = "C saves one at an update, and it plays then"
            return f"no checkpoint yet to be played: {wait if self._saves(view) else later}"
        return ""

    def _saves(self, view: RunView) -> bool:
        """Whether a checkpoint can be asked for, as `C` does, so that there is something to play."""
        context = self._app_context
        if context.readonly or (context.snapshot is not None and context.snapshot.replay is not None):
            return False
        plays = view.state == "running" and view.update is not None and refusal(view.can, "evaluate") is None
        return plays and objection("checkpoint", view) is None

    async def _save(self) -> None:
        if self._view is not None:
            asked = (self._view.id,)
            await self._app_context.ask(lambda id_: Act(id=id_, verb="checkpoint", runs=asked))

    def _checkpoints(self) -> tuple[CheckpointView, ...]:
        details = None if self._data is None else self._data.details
        if details is None:
            return ()
        return tuple(sorted(details.checkpoints, key=lambda row: (row.timesteps, row.name)))

    def _draw(self) -> None:
        feed, widget = self.feed, self._widget()
        if widget is None:
            return
        said, alarming = self._against, False
        if feed.trouble:
            said, alarming = f"{feed.trouble}  (Enter tries again)", True
        elif not said and feed.frame is None:
            said = "starting a process that plays the newest checkpoint; with torch to load this takes some seconds…"
        state = f"{feed.pace.word}  Space holds  f reel"
        if feed.held:
            state = "held: Space goes on, . one step, f reel"
            if feed.unattended:
                state = "held after 30 min without a key: Space"
        history = None if self._data is None else self._data.history.get(RETURN)
        frame = None if self._against else feed.frame
        widget.update(WatchView(frame, feed.checkpoint, self._checkpoints(), history, state, said, alarming))
        self._app_context.show_picture(widget.placed(feed.canvas()))


def _whose(judged: Mapping[str, Any]) -> str:
    """The checkpoint that was evaluated; what the file says may be anything."""
    return str(judged.get("checkpoint"))


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
