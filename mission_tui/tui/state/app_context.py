"""The app context: what a verb may use to carry out a key: the supervisor, and ways to notify and ask the user.

Nothing here waits in the screen's own loop: every verb and every question to the supervisor is a worker of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar

from msgspec import Struct
from textual.app import App
from textual.notifications import Notification, Notify
from textual.screen import Screen

from mission_tui.errors import MissionError
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.views.played_frame import Colours, Protocol
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
from mission_tui.ipc.client_environment import Origin
from mission_tui.ipc.replies import Progress
from mission_tui.ipc.requests import UNDO_S, AnsweredBy
from mission_tui.tui.actions import Place
from mission_tui.tui.client import FleetClient, ReplaySeek
from mission_tui.tui.drawing.strips import literal
from mission_tui.tui.state.news import (
    KEPT,
    MOST_ROWS,
    CriticalFindings,
    Message,
    ReturnNotice,
    Severity,
    merged,
    rows,
    shortened,
)
from mission_tui.tui.state.preferences import ChartSettings, Preferences, Shares
from mission_tui.tui.state.presets import LoadPresets, PresetChoice, Resolve, SavePreset, save_nothing
from mission_tui.tui.state.timeline import Zoom
from mission_tui.tui.terminal.pixels import Placed

Answer = TypeVar("Answer")

ONE_ACTION_S = 0.5
"""Toasts within this time of each other belong to one action."""
_NONE_YET = Preferences()


class UndoableAction(Struct, frozen=True):
    """What `u` takes back: `runs` that were launched, went to the trash, or whose place was taken, at monotonic `t`."""

    how: Literal["launched", "removed", "taken"]
    runs: tuple[str, ...]
    t: float


class RunsScreen(Screen[None], inherit_bindings=False):
    """A screen with runs on it, as verbs ask it."""

    PLACE: ClassVar[Place]

    def chosen(self) -> RunView | None:
        """The run that actions on one run apply to."""
        raise NotImplementedError

    def finding(self) -> Finding | None:
        """The finding that actions on one finding apply to."""
        raise NotImplementedError


class HostApp(App[int], inherit_bindings=False):
    """What the context needs of the app beyond Textual's own."""

    def arrived(self, snapshot: FleetSnapshot) -> None:
        """A snapshot came, asked for or not."""
        raise NotImplementedError

    def redraw_screens(self) -> None:
        """Draw again what does not come with a snapshot."""
        raise NotImplementedError

    def keep_keys(self, work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """`work`, during which no key acts on the present screen: they are for what it lays over that."""
        raise NotImplementedError

    def refuse_keys(self) -> None:
        """Drop what is typed for a sheet that does not come."""
        raise NotImplementedError

    def let_keys_act(self) -> None:
        """Keys are for the present screen: what was asked for is done without another."""
        raise NotImplementedError

    def forget_keys(self) -> None:
        """Drop the keys that are kept."""
        raise NotImplementedError

    def await_run(self, run_id: str) -> None:
        """Have the fleet choose a run as soon as it is listed."""
        raise NotImplementedError

    def open_run(self, view: RunView, tab: str, episode: tuple[str, int] | None = None) -> None:
        """Open a run over the present screen."""
        raise NotImplementedError

    def show_error(self, error: Exception) -> None:
        """Show an error of the screen itself, with its trace."""
        raise NotImplementedError

    def line_load(self) -> tuple[int, float]:
        """Characters written to the terminal so far, and seconds that a picture nobody asked for has to wait."""
        raise NotImplementedError

    def picture_colours(self) -> Colours:
        """The colours that a picture of pixels may have in this terminal."""
        raise NotImplementedError

    def picture_cell(self) -> tuple[int, int] | None:
        """The pixels of a cell where the terminal shows pictures of pixels and the line carries them."""
        raise NotImplementedError

    def pixel_protocol(self) -> Protocol:
        """How the terminal takes pictures of pixels."""
        raise NotImplementedError

    def show_picture(self, placed: Placed | None) -> None:
        """Show a picture of pixels over cells of the screen, or none."""
        raise NotImplementedError

    def leave_for(self, root: str, replay_t: float | None = None) -> None:
        """Leave, to be followed by the screen of another runs root, or by what it showed at `replay_t`."""
        raise NotImplementedError


def _just_now(told: Notification) -> bool:
    return told.time_left >= told.timeout - ONE_ACTION_S


class AppContext:
    """One per screen session. `clock` is monotonic seconds, `snapshot` the newest that came; `undo_stack` `u` takes
    back, `messages` what was told of late, oldest first, `zoom` how far back the strip goes, `chart` how charts of
    runs are drawn, `shares` how screens are split, `machine_sort` and `log_folds` what the next machine screen and
    log take up, `kept_form` (its preset and fields) what the next launch form does, `launches_at` the machine of
    the last launch where there are several; `preferences` is what was found when it began. `first_answer` is set by
    the first snapshot, or when it is known that none comes.

    Paths on the screen leave out `home`; `last_seen_t` (unix s) is when this fleet was last looked at. `elsewhere` says
    in sentences what ended at other runs roots.
    """

    def __init__(
        self,
        app: HostApp,
        client: FleetClient,
        load_presets: LoadPresets,
        resolve: Resolve,
        origin: Origin,
        *,
        readonly: bool = False,
        home: str = "",
        last_seen_t: float | None = None,
        preferences: Preferences = _NONE_YET,
        save_preset: SavePreset = save_nothing,
        elsewhere: Callable[[], Sequence[str]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._elsewhere = elsewhere
        self._client = client
        self.load_presets = load_presets
        self.resolve = resolve
        self.save_preset = save_preset
        self.origin = origin
        self.readonly = readonly
        self.home = home
        self.clock = clock
        self.presets: tuple[PresetChoice, ...] = ()
        self.snapshot: FleetSnapshot | None = None
        self.banner: str | None = None
        self.alarm = CriticalFindings(muted=not preferences.bell)
        self.coming_back = ReturnNotice(last_seen_t)
        self.preferences = preferences
        self.zoom = Zoom(preferences.strip_s)
        self.chart = ChartSettings.found(
            preferences.chart_kept, preferences.chart_over, preferences.chart_smoothing, preferences.chart_scale
        )
        self.shares = Shares(preferences.shares)
        self.machine_sort, self.log_folds = preferences.machine_sort, preferences.log_folds
        self.watch_pixels = preferences.watch_pixels
        self.launches_at = ""
        self.undo_stack: list[UndoableAction] = []
        self.messages: deque[Message] = deque(maxlen=KEPT)
        self._told: list[Notification] = []
        self._announced: list[Notification] = []
        self.kept_form: Mapping[str, str] | None = preferences.form or None
        self.replay_seek = ReplaySeek(self)
        self.line_load, self.picture_colours = app.line_load, app.picture_colours
        self.picture_cell, self.show_picture = app.picture_cell, app.show_picture
        self.pixel_protocol = app.pixel_protocol
        self.first_answer = asyncio.Event()

    @property
    def readonly_note(self) -> str:
        """What a header says of a screen that only looks; a replay says that it is one."""
        past = self.snapshot is not None and self.snapshot.replay is not None
        return "read-only" if self.readonly and not past else ""

    def start(self, work: Coroutine[Any, Any, None], name: str = "") -> None:
        """Carry out `work` beside the screen. A `MissionError` becomes a toast, anything else a modal."""
        self._app.run_worker(self._guarded(work), name, exit_on_error=False)

    def carry_out(self, work: Coroutine[Any, Any, None]) -> None:
        """`start` something that shows a screen or an answer: what is typed until then waits for that."""
        self.start(self._app.keep_keys(work))

    def done(self) -> None:
        """The key is answered without a sheet: what was typed behind it acts on the present screen."""
        self._app.let_keys_act()

    def refuse(self, sentence: str) -> None:
        """Say why a sheet does not come: what is typed for it acts on nothing."""
        self.toast(sentence)
        self._app.refuse_keys()

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except MissionError as error:
            self.toast(str(error), "error")
        except Exception as error:  # noqa: BLE001 - the edge of a task: shown with its trace, and the screen goes on
            self._app.show_error(error)

    async def ask(self, make: Callable[[int], AnsweredBy[Answer]], at: str = "") -> Answer:
        """The supervisor's answer, on a screen of several machines that of the machine `at` for what names no run.

        Raises the `MissionError` that a refusal or a lost link stands for.
        """
        return await (self._client.at(at) if at else self._client).ask(make)

    def wake(self) -> None:
        """Have the supervisor started again, if somebody stopped it."""
        self._client.wake()

    def stream(self, make: Callable[[int], AnsweredBy[Answer]], at: str = "") -> AsyncIterator[Answer | Progress]:
        """Progress of a long request, then its answer; `at` and errors as of `ask`."""
        return (self._client.at(at) if at else self._client).stream(make)

    def toast(self, sentence: str, severity: Severity = "information", seconds: float | None = None) -> None:
        """A toast. Foreign text in `sentence` is shown as it is.

        Earlier information makes room for it, because each further line would cover one of the screen; warnings stay
        while there is room for both. What finds none is in `messages`, and said to be there.
        """
        self.messages.append(Message(time.time(), severity, sentence))
        self._put_up(literal(sentence), severity, seconds)

    def _put_up(self, text: str, severity: Severity, seconds: float | None = None) -> Notification:
        up = self._up()
        for earlier in sorted(up, key=lambda it: it.severity != "information"):
            outdated = earlier.severity == severity == "information" and not _just_now(earlier)
            if outdated or self._rows(text) > MOST_ROWS:
                self._withdraw(earlier)
        return self._tell(shortened(text, MOST_ROWS, self._app.size.width), severity, seconds)

    def announce(self, sentence: str, severity: Severity) -> None:
        """A toast that answers no key. Where it would take the place of a warning that does, it comes when that has
        been there to be read; in `messages` it is at once.
        """
        self.messages.append(Message(time.time(), severity, sentence))
        self._announce(sentence, severity)

    def _announce(self, sentence: str, severity: Severity) -> None:
        text, answers = literal(sentence), [it for it in self._up() if self._answers_a_key(it)]
        shown = shortened(text, MOST_ROWS, self._app.size.width)
        if answers and rows([*(it.message for it in answers), shown], self._app.size.width) > MOST_ROWS:
            # Looked at again and again, because a click takes a toast away before its time.
            self._app.set_timer(ONE_ACTION_S, partial(self._announce, sentence, severity))
            return
        self._announced = [it for it in self._announced if it in self._told]
        self._announced.append(self._put_up(text, severity))

    def _answers_a_key(self, told: Notification) -> bool:
        """Whether it is a warning about what a person has done."""
        return told.severity != "information" and told not in self._announced

    def warn(self, sentences: Iterable[str]) -> None:
        """A warning for each sentence, beside what was just told of the same action; of those that differ in a name and
        in numbers alone, one for all. Where there is no room for more, the last one says where the rest is.
        """
        told, width = tuple(sentences), self._app.size.width
        as_one = merged(told)
        for earlier in self._up():
            if not _just_now(earlier) and self._rows(*map(literal, as_one)) > MOST_ROWS:
                self._withdraw(earlier)
        for at, sentence in enumerate(as_one):
            text, left = literal(sentence), MOST_ROWS - self._rows()
            if left > 0:
                more = at + 1 < len(as_one) and rows([text], width) >= left
                self._tell(shortened(text, left, width, more=more), "warning")
            self.messages.append(Message(time.time(), "warning", sentence))
        self.messages.extend(Message(time.time(), "warning", it) for it in told if it not in as_one)

    def _tell(self, text: str, severity: Severity, seconds: float | None = None) -> Notification:
        timeout = seconds or {"information": 4.0, "warning": 8.0, "error": 10.0}[severity]
        self._told.append(Notification(text, severity=severity, timeout=timeout))
        self._app.post_message(Notify(self._told[-1]))
        return self._told[-1]

    def _up(self) -> list[Notification]:
        """The toasts that are up, or will be in a moment."""
        shown = self._app._notifications
        self._told = [it for it in self._told if it in shown or (_just_now(it) and it.timeout > 0.0)]
        return self._told

    def _rows(self, *more: str) -> int:
        """How many rows toasts cover, with `more`."""
        return rows([*(it.message for it in self._up()), *more], self._app.size.width)

    def _withdraw(self, told: Notification) -> None:
        if told in self._app._notifications:
            self._app._unnotify(told)
        told.timeout = 0.0  # one that is not up yet never will be

    def clear(self) -> None:
        """Take away all toasts: what they say is out of date."""
        self._told.clear()
        self._app.clear_notifications()

    async def ask_user(self, screen: Screen[Answer]) -> Answer | None:
        """Put a question over the screen and wait for the person's answer; None when they turned away."""
        return await self._app.push_screen_wait(screen)

    def open(self, screen: Screen[Any]) -> None:
        """Put `screen` over the present one."""
        self._app.push_screen(screen)

    def open_run(self, view: RunView, tab: str, episode: tuple[str, int] | None = None) -> None:
        """Open a run at one of its tabs; an `episode`, a checkpoint and a seed, plays there."""
        self._app.open_run(view, tab, episode)

    def copy(self, text: str) -> None:
        """Put `text` on the terminal's clipboard."""
        self._app.copy_to_clipboard(text)

    def switch_root(self, root: str, replay_t: float | None = None) -> None:
        """Show another runs root instead of this one, or one as it was at unix time `replay_t`."""
        self._app.leave_for(root, replay_t)

    def suspend(self, meanwhile: Callable[[], object] | None = None) -> None:
        """Give the terminal back to the shell and stop; or lend it for as long as `meanwhile` takes.

        What was typed for the shell before it was there is dropped.
        """
        self._app.let_keys_act()
        self._app.forget_keys()
        if meanwhile is None:
            self._app.action_suspend_process()
        else:
            with self._app.suspend():
                meanwhile()

    async def press(self, call: str) -> None:
        """Carry out a Textual action as if its key had been pressed on the present screen."""
        await self._app.run_action(call)

    @property
    def shown(self) -> RunsScreen:
        """The screen with runs on it that is seen, or lies under a question: its place, its chosen run and finding."""
        return next(screen for screen in reversed(self._app.screen_stack) if isinstance(screen, RunsScreen))

    @property
    def place(self) -> Place | Literal["compare"]:
        """Where the keys of the present screen stand in the table of actions."""
        places = (getattr(screen, "PLACE", None) for screen in reversed(self._app.screen_stack))
        return next((place for place in places if place is not None), "fleet")

    def arrived(self, snapshot: FleetSnapshot) -> None:
        """A snapshot came as the answer to a question."""
        self._app.arrived(snapshot)

    def redraw(self) -> None:
        """Show the newest snapshot again, because what surrounds it changed."""
        self._app.redraw_screens()

    async def read_presets(self) -> None:
        """Load the presets in a thread, because a folder on a network disk may take its time."""
        self.presets = await asyncio.to_thread(self.load_presets)
        self.redraw()

    async def learn_elsewhere(self) -> None:
        """Know what ended at other runs roots, looked up in a thread: a file server may hang."""
        self.coming_back.elsewhere = tuple(await asyncio.to_thread(self._elsewhere))
        if self.coming_back.elsewhere:
            self.redraw()

    def started(self, runs: tuple[str, ...], sentence: str, warnings: Iterable[str] = ()) -> None:
        """Say what was started; `u` takes back `runs`, and the first is chosen, because the next key is for it."""
        self.undo_stack.append(UndoableAction("launched", runs, self.clock()))
        self._app.await_run(runs[0])
        self.toast(f"{sentence}; u undoes for {UNDO_S:.0f} s", seconds=UNDO_S)
        self.warn(warnings)
        self.redraw()

    def undoable(self) -> UndoableAction | None:
        """The newest action that `u` can still take back."""
        self.undo_stack = [action for action in self.undo_stack if self.clock() - action.t < UNDO_S]
        return self.undo_stack[-1] if self.undo_stack else None

    def is_away(self, machine: str) -> bool:
        """Whether that is another machine than the one that the screen is on."""
        known = self.snapshot.hosts if self.snapshot else ()
        return any(one.away for one in known if one.name == machine)

    def view(self, run: str) -> RunView | None:
        """A run of the newest snapshot."""
        runs = self.snapshot.runs if self.snapshot else ()
        return next((view for view in runs if view.id == run), None)
