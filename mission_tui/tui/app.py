"""Wires the screen together: the feed of snapshots to screens, and keys to verbs. It decides nothing itself."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar

from rich.console import RenderableType
from textual.binding import Binding, BindingType
from textual.events import Event, Key, Paste, Resize
from textual.filter import LineFilter, NoColor
from textual.screen import Screen

from mission_tui.fleet.commands import LAUNCH_KEYS
from mission_tui.fleet.views.played_frame import Colours, Protocol
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
from mission_tui.ipc.client_environment import Origin
from mission_tui.ipc.requests import UNDO_S
from mission_tui.tui.actions import BY_NAME, launches
from mission_tui.tui.client import FleetClient, follow
from mission_tui.tui.drawing.colours import THEME
from mission_tui.tui.drawing.glyphs import GlyphFilter, draws_unicode
from mission_tui.tui.screens.fleet import FleetScreen
from mission_tui.tui.screens.snapshot_screen import SnapshotScreen
from mission_tui.tui.snapshot_arrivals import SnapshotArrivals
from mission_tui.tui.state.app_context import AppContext, HostApp
from mission_tui.tui.state.fleet_view_state import FleetViewState
from mission_tui.tui.state.preferences import Preferences
from mission_tui.tui.state.presets import LoadPresets, Resolve, SavePreset, save_nothing
from mission_tui.tui.terminal.driver import Flow, MeteredDriver
from mission_tui.tui.terminal.pixels import Placed, may_ask
from mission_tui.tui.terminal.typed_ahead import WINDOW_S, LaunchGate, TypedAhead
from mission_tui.tui.textual_fixes.cell_diff import Pen, brief
from mission_tui.tui.textual_fixes.memory import ClosedScreens, forget_whole
from mission_tui.tui.textual_fixes.one_shot import late_rather_than_never

_NONE_YET = Preferences()

GREETING_S = 10.0
"""Long enough to read it while looking at another runs root for the first time."""

_ONLY_LOOKS = "this screen is read-only"
_FOLLOWING = "follow"
"""The work that never ends."""


class MissionApp(HostApp, inherit_bindings=False):
    """The application; its result is the process's exit code. `next_root` is what the person left for, if anything;
    `next_replay_t` the moment (unix s) at which they want to see it.
    """

    CSS_PATH: ClassVar = ["app.tcss", "screens/fleet.tcss"]
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    TITLE = "mission-tui"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "remind", "leave", show=False, priority=True)]

    def __init__(
        self,
        client: FleetClient,
        load_presets: LoadPresets,
        resolve: Resolve,
        origin: Origin,
        *,
        readonly: bool = False,
        last_seen_t: float | None = None,
        greeting: str = "",
        view_state: FleetViewState | None = None,
        preferences: Preferences = _NONE_YET,
        save_preset: SavePreset = save_nothing,
        elsewhere: Callable[[], Sequence[str]] = tuple,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(driver_class=MeteredDriver)
        forget_whole()
        late_rather_than_never()
        environ = os.environ if environ is None else environ
        home = environ.get("HOME", "")
        self.typed = TypedAhead(self, self._pass_on, self._keys_dropped)
        self.app_context = AppContext(
            self,
            client,
            load_presets,
            resolve,
            origin,
            readonly=readonly,
            home=home,
            last_seen_t=last_seen_t,
            preferences=preferences,
            save_preset=save_preset,
            elsewhere=elsewhere,
            clock=clock,
        )
        self._flow = Flow(self, clock)
        self.arrivals = SnapshotArrivals(self, self.app_context, self._flow, last_seen_t)
        self.view_state = view_state or FleetViewState.found(preferences.panes, preferences.sort)
        self._client = client
        self.next_root: str | None = None
        self.next_replay_t: float | None = None
        self._greeting = greeting
        self._ascii_only = not draws_unicode(environ)
        self._glyphs = GlyphFilter(ascii_only=self._ascii_only)
        self._pen = Pen(self.console)
        self._may_ask_for_pictures = may_ask(environ)
        self._gate = LaunchGate()
        self._closed_screens = ClosedScreens(self)
        self.register_theme(THEME)
        self.theme = THEME.name

    async def on_event(self, event: Event) -> None:
        """Keep keys for the screen for which they were typed, where that is still to come."""
        if isinstance(event, Key | Paste):
            await self.typed.take(event)
            return
        if isinstance(event, Resize):
            self._pen.cache.forget()  # terminals shift and wipe lines as they like
            self._flow.take_picture_away()
        await super().on_event(event)

    async def _pass_on(self, event: Event) -> None:
        if isinstance(event, Paste) and not event.is_forwarded:
            from textual.widgets import Input  # not before somebody types: the first picture comes sooner without

            lines = len(list(filter(str.strip, event.text.splitlines())))
            box = self.focused
            if lines > 1 and isinstance(box, Input) and type(box)._on_paste is Input._on_paste:
                self.app_context.toast(f"{lines} lines were pasted, and this takes one: the first", "warning")
        await super().on_event(event)

    def _keys_dropped(self, many: int) -> None:
        what = "1 key" if many == 1 else f"{many} keys"
        self.app_context.warn((f"{what} typed behind it changed nothing",))

    def get_default_screen(self) -> FleetScreen:
        """The first screen."""
        return FleetScreen(self.app_context, self.app_context.home, self.view_state)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Safe glyphs always; colours unless `NO_COLOR` asks for none at all."""
        colours = [NoColor()] if self.no_color else super().get_line_filters()
        return [self._glyphs, *colours]

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        coming_up = not getattr(screen, "drawn", True)
        if not coming_up and not self._flow.holds(renderable):
            super()._display(screen, brief(renderable, self._pen))
            self._flow.drew()

    def show_picture(self, placed: Placed | None) -> None:
        """Show this picture of pixels over the cells, or none."""
        self._flow.show_picture(placed)

    def picture_cell(self) -> tuple[int, int] | None:
        """The pixels of a cell where the terminal shows pictures of pixels and the line carries them. The first call
        asks the terminal.
        """
        return self._flow.picture_cell() if self._may_ask_for_pictures and self.picture_colours() != "none" else None

    def pixel_protocol(self) -> Protocol:
        """How the terminal takes pictures of pixels."""
        return self._flow.pixel_protocol

    def refresh_css(self, animate: bool = True) -> None:
        """Style everything anew. Before there is anything, the stylesheets that are read then take up the colours."""
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def on_mount(self) -> None:
        """Begin to follow the supervisor."""
        self._flow.start()
        # At once: where it is told behind what waits for the program, a key of a burst goes to the new screen before.
        self.screen_change_signal.subscribe(self, self.typed.changed, immediate=True)
        self.screen_change_signal.subscribe(self, lambda _: self._closed_screens.forget())
        self.screen_change_signal.subscribe(self, lambda _: self.arrivals.catch_up())
        self.app_resume_signal.subscribe(self, lambda _: self.action_redraw())
        self.app_context.start(follow(self._client, self.arrived, self.arrivals.lost), _FOLLOWING)
        self.app_context.start(self.arrivals.ask_when_silent(self._client), _FOLLOWING)
        if self._greeting:
            self.app_context.toast(self._greeting, seconds=GREETING_S)

    @property
    def is_loading_data(self) -> bool:
        """Whether an answer to something that was asked is awaited, or comes to be asked."""
        return any(not worker.is_finished and worker.name != _FOLLOWING for worker in self.workers)

    def arrived(self, snapshot: FleetSnapshot) -> None:
        """A snapshot came, asked for or not."""
        self.arrivals.arrived(snapshot)

    def _refuses(self, name: str) -> bool:
        """Whether the action `name` would change something on a screen that only looks; then it says so."""
        if not self.app_context.readonly or not BY_NAME[name].changes:
            return False
        past = self.app_context.snapshot is not None and self.app_context.snapshot.replay is not None
        self.app_context.toast("a replay is read-only: H goes to now" if past else _ONLY_LOOKS)
        return True

    def redraw_screens(self) -> None:
        """Draw again what does not come with a snapshot."""
        self.arrivals.redraw_screens()

    def keep_keys(self, work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """Keep keys for what `work` shows."""
        return self.typed.keep_for(work)

    def refuse_keys(self) -> None:
        """Drop what is typed for a sheet that does not come."""
        self.typed.refuse()

    def let_keys_act(self) -> None:
        """Keys are for the present screen: what was asked for is done."""
        self.typed.done()

    def forget_keys(self) -> None:
        """Drop the keys that are kept."""
        self.typed.forget()

    def line_load(self) -> tuple[int, float]:
        """Bytes written to the terminal so far, and seconds that a picture nobody asked for has to wait."""
        return self._flow.given_bytes, self._flow.rest_s()

    def picture_colours(self) -> Colours:
        """Shades alone where there are no colours, or no half blocks; Rich brings 256 colours down to 16."""
        if self._ascii_only or self.no_color or self.console.color_system is None:
            return "none"
        return "full" if self.console.color_system == "truecolor" else "256"

    def show_error(self, error: Exception) -> None:
        """Over everything, and the session goes on."""
        from mission_tui.tui.screens.sheets import ErrorScreen

        self.push_screen(ErrorScreen(error))

    def await_run(self, run_id: str) -> None:
        """Have the fleet choose a run as soon as it is listed."""
        self.view_state.awaited = run_id

    def open_run(self, view: RunView, tab: str, episode: tuple[str, int] | None = None) -> None:
        """Open a run over the present screen; from one run to another there is no way back through the first."""
        from mission_tui.tui.screens.run import RunScreen

        if episode is not None and isinstance(self.screen, RunScreen) and self.screen.chosen().id == view.id:
            self.screen.play_again(*episode)
            return
        opened = RunScreen(self.app_context, view, tab, self.app_context.home)
        if episode is not None:
            opened.play_again(*episode)
        if isinstance(self.screen, RunScreen):
            self.switch_screen(opened)
        else:
            self.push_screen(opened)

    def action_do(self, name: str) -> None:
        """Carry out the verb `name` on the runs that are chosen at this moment."""
        from mission_tui.tui.verbs import VERBS
        from mission_tui.tui.verbs.acts import able

        if self._refuses(name):
            return  # what is typed behind it changes nothing either
        screen, action = self.screen, BY_NAME[name]
        # Behind these the next key is meant for a list of runs, which may as well be this one.
        types_for_it = action.sheet and name not in ("compare", "machine") and not self.app_context.readonly
        needs = action.needs
        runs: tuple[RunView, ...] = ()
        if isinstance(screen, SnapshotScreen) and needs != "none":
            one = screen.chosen()
            runs = screen.targets() if needs == "marked" else (one,) if one else ()
        elif needs != "none":
            runs = getattr(screen, "compared", ())
        if needs != "none" and not runs:
            self.app_context.toast("no run is chosen")
        elif runs:
            runs = able(self.app_context, name, runs)
        if needs == "none" or runs:
            work = VERBS[name](self.app_context, runs)
            if action.sheet:
                # Earlier toasts would cover the lower edge of the sheet, where its keys are.
                self.app_context.clear()
                self.app_context.start(self.typed.keep_for(work, sheet=types_for_it))
            else:
                self.app_context.start(work)
        elif types_for_it:
            self.typed.refuse()

    def action_launch(self, key: str) -> None:
        """Hold a launch key until it is clear that it was no paste and no held key."""
        if self._refuses("launch"):
            return
        if not launches(key, self.app_context.place):
            self.app_context.toast(
                f"{key} starts its presets from the list alone; Ctrl-S saves this chart, F12 the screen"
            )
            return
        if self.app_context.snapshot is not None and self.app_context.snapshot.hosts:
            self.app_context.carry_out(self._launch_somewhere(key))
        else:
            self._gate.press(key, self.app_context.clock())
            self.set_timer(1.1 * WINDOW_S, self._release)

    async def _launch_somewhere(self, key: str) -> None:
        """It is asked where, and what is typed behind the key is for that question."""
        await asyncio.sleep(WINDOW_S)
        if self.typed.is_flooded(LAUNCH_KEYS):
            self.typed.forget()
        else:
            await self._launch((key,))

    def _release(self) -> None:
        keys, ignored = self._gate.release(self.app_context.clock())
        if ignored:
            self.app_context.toast(f"{ignored} keys at once were ignored: press one key to start a preset", "warning")
        elif keys:
            self.app_context.start(self._launch(keys))

    async def _launch(self, keys: Sequence[str]) -> None:
        from mission_tui.tui.verbs.launch import launch_keys

        await launch_keys(self.app_context, keys)
        self.set_timer(UNDO_S + 1, self.arrivals.redraw_screens)

    def action_pace(self, by: int) -> None:
        """Redraw more or less often."""
        self.app_context.toast(f"redraws at most {self.arrivals.pace.turn(by):g} times a second", seconds=2.0)

    def action_redraw(self) -> None:
        """Paint everything again, after something else has written on the terminal."""
        self._pen.cache.forget()
        self._flow.take_picture_away()
        self.refresh(repaint=True, layout=True)

    def leave_for(self, root: str, replay_t: float | None = None) -> None:
        """Leave, to be followed by the screen of another runs root, or by what it showed at `replay_t`."""
        self.next_root, self.next_replay_t = root, replay_t
        self.exit(0)

    def action_leave(self) -> None:
        """Leave; runs go on."""
        self.exit(0)

    def action_remind(self) -> None:
        """Ctrl-C is pressed by habit and must neither end the screen nor reach a run."""
        self.app_context.toast("q leaves; all runs go on. s stops the chosen run, K kills it")
