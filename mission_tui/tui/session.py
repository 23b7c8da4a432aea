"""One session of the screen: the app with a real supervisor, a watch on the terminal's end, and saved preferences."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

from rich.console import ConsoleDimensions
from textual.events import Resize
from textual.geometry import Size
from textual.pilot import Pilot

from mission_tui.errors import MissionError
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.client_environment import Origin
from mission_tui.ipc.requests import GetSnapshot
from mission_tui.tui.app import MissionApp
from mission_tui.tui.client import FleetClient
from mission_tui.tui.entry import SessionResult
from mission_tui.tui.state.fleet_view_state import FleetViewState
from mission_tui.tui.state.preferences import Keep, Preferences, UnsavedPreferences, keep_nothing, preferences_in
from mission_tui.tui.state.presets import LoadPresets, Resolve, SavePreset
from mission_tui.tui.textual_fixes.hangup import watch_signals, watched_terminal

SIZE_CHECK_S = 1.0
REMEMBER_S = 15.0
SETTLED_S = 1.0
"""By then the first picture is drawn, or no supervisor answers."""
PICTURE_S = 20.0
"""So long an answer is waited for where one picture is all that is wanted."""
LOOK_S, QUIET_S, LOADED_S = 0.05, 0.5, 8.0
"""How often it is looked whether a screen still loads; for how long nothing may be asked before its picture is taken,
which is longer than a cursor has to rest until charts are asked for; and the longest that is waited.
"""
PLAYING_S, PLAYS_S, PLAYED_STEPS = 90.0, 0.15, 20
"""A process that loads torch plays first, and an episode at its beginning shows little."""
GC_THRESHOLD = 20_000
"""Every picture makes some thousand objects and lets go of those of the picture before. At Python's 700 they were
looked through a dozen times a second, and every few seconds with all that is kept, for 50 ms without handling keys.
"""


def show(
    client: FleetClient,
    presets: LoadPresets,
    resolve: Resolve,
    origin: Origin,
    *,
    readonly: bool,
    last_seen_t: float | None,
    remember: Callable[[float], None],
    greeting: str,
    view_state: FleetViewState | None,
    save_preset: SavePreset,
    habits: Mapping[str, object],
    keep: Keep,
    elsewhere: Callable[[], Sequence[str]],
) -> SessionResult:
    """The screen of what `client` sees, until it is left or the terminal ends."""

    async def session() -> SessionResult:
        app = MissionApp(
            client,
            presets,
            resolve,
            origin,
            readonly=readonly,
            last_seen_t=last_seen_t,
            greeting=greeting,
            view_state=view_state,
            save_preset=save_preset,
            preferences=preferences_in(habits),
            elsewhere=elsewhere,
        )
        return await play(app, client, remember, keep)

    return asyncio.run(session())


def draw_once(
    client: FleetClient,
    presets: LoadPresets,
    origin: Origin,
    kind: Literal["svg", "png"],
    size: tuple[int, int],
    runs: tuple[RunView, ...],
    view: str | None,
    *,
    readonly: bool,
) -> bytes:
    """The picture of a screen that nobody sees, once it has all that it shows, or plays. Raises `MissionError`."""
    from mission_tui.tui.verbs.looking import file_of

    drawn: list[bytes | MissionError] = []
    app = MissionApp(client, presets, lambda _name, _words: [], origin, readonly=readonly)

    async def look(pilot: Pilot[object]) -> None:
        try:
            await asyncio.wait_for(app.app_context.first_answer.wait(), PICTURE_S)
            await _measured(app)
            if view is not None:
                _open(app, runs, view)
            if view == "watch":
                await _see_it_play(app, pilot)
            else:
                await _loaded(app, pilot)
            drawn.append(file_of(app, kind))
        except TimeoutError:
            drawn.append(MissionError(f"no supervisor has answered for {PICTURE_S:.0f} s"))
        except MissionError as error:
            drawn.append(error)
        finally:
            app.exit()

    async def session() -> None:
        try:
            await app.run_async(headless=True, size=size, auto_pilot=look)
        finally:
            await client.close()

    asyncio.run(session())
    found = drawn[0] if drawn else MissionError("the screen ended before it was drawn")
    if isinstance(found, MissionError):
        raise found
    return found


def _open(app: MissionApp, runs: tuple[RunView, ...], view: str) -> None:
    if len(runs) == 1:
        app.open_run(runs[0], view)
    elif runs:
        from mission_tui.tui.screens.compare import CompareScreen

        # As on the screen, where the others are compared with the oldest.
        oldest_first = sorted(runs, key=lambda run: (run.created_t, run.id))
        app.push_screen(CompareScreen(app.app_context, tuple(oldest_first)))
    else:
        from mission_tui.tui.screens.machine import MachineScreen

        app.push_screen(MachineScreen(app.app_context, None))


async def _see_it_play(app: MissionApp, pilot: Pilot[object]) -> None:
    """Wait until an episode is on its way, or it is said why there is none."""
    from mission_tui.tui.screens.run import RunScreen

    deadline = time.monotonic() + PLAYING_S
    while time.monotonic() < deadline:
        await pilot.pause(PLAYS_S)
        if isinstance(app.screen, RunScreen) and app.screen.plays_since(PLAYED_STEPS):
            return
    raise MissionError(f"nothing has played for {PLAYING_S:.0f} s")


async def _measured(app: MissionApp) -> None:
    """Have meters that were read for this picture: a screen's first snapshot says what is known, which may be nothing
    of a GPU that was not asked yet.
    """
    with suppress(MissionError):  # what is wrong with the supervisor is on the screen
        app.arrived((await app.app_context.ask(lambda id_: GetSnapshot(id=id_))).snapshot)


async def _loaded(app: MissionApp, pilot: Pilot[object]) -> None:
    """Wait until the screen asks for nothing more. What it shows is no measure of that: beside runs that train it
    changes with every snapshot.
    """
    begun = quiet_since = time.monotonic()
    while (now := time.monotonic()) - quiet_since < QUIET_S and now - begun < LOADED_S:
        await pilot.pause(LOOK_S)
        if app.is_loading_data:
            quiet_since = time.monotonic()


async def play(
    app: MissionApp,
    client: FleetClient,
    remember: Callable[[float], None] = lambda _t: None,
    keep: Keep = keep_nothing,
) -> SessionResult:
    """Run `app` to its end. `remember` gets the time of what was seen, `keep` what was chosen; both may block."""
    unsaved = UnsavedPreferences(chosen(app), keep)
    terminal_fd = sys.__stdin__.fileno() if sys.__stdin__ else 0
    columns, lines = os.get_terminal_size(terminal_fd)
    if 0 in (columns, lines):
        # Rich then assumes 25 lines and Textual's driver 24, and the layout would swing between them for ever.
        app.console.size = ConsoleDimensions(columns or 80, lines or 24)
    watch_signals(app.exit)
    watches = [
        asyncio.create_task(_watch_size(app, terminal_fd)),
        asyncio.create_task(_remember(app, remember)),
        asyncio.create_task(_keep(app, unsaved)),
    ]
    asyncio.get_running_loop().call_later(SETTLED_S, _collect_again)
    try:
        with watched_terminal(terminal_fd, app.exit):
            code = await app.run_async()
    finally:
        for watch in watches:
            watch.cancel()
        await client.close()
    unsaved.save(chosen(app))
    seen_t, left_as = app.arrivals.last_seen_t, app.view_state.for_another_screen()
    return SessionResult(code or 0, seen_t, app.arrivals.live, app.next_root, app.next_replay_t, left_as)


async def _remember(app: MissionApp, remember: Callable[[float], None]) -> None:
    """A screen that is killed was seen as well; a screen whose terminal takes nothing any more draws nothing new."""
    told: float | None = None
    while True:
        await asyncio.sleep(REMEMBER_S)
        seen = app.arrivals.last_seen_t
        if seen is not None and seen != told:
            await asyncio.to_thread(remember, seen)
            told = seen


async def _keep(app: MissionApp, unsaved: UnsavedPreferences) -> None:
    while True:
        await asyncio.sleep(REMEMBER_S)
        await asyncio.to_thread(unsaved.save, chosen(app))


def _collect_again() -> None:
    """Collect garbage from now on, but never again look through what came with the modules."""
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    gc.enable()


async def _watch_size(app: MissionApp, terminal_fd: int) -> None:
    """Take the terminal's own word for its size, once a second.

    In a storm of resizes the driver's signal handler can be overtaken by itself, and the older size comes last.
    """
    while True:
        await asyncio.sleep(SIZE_CHECK_S)
        with suppress(OSError):  # the terminal is gone; the watch on it ends the screen
            size = Size(*os.get_terminal_size(terminal_fd))
            if size and app.is_running and size != app.size:
                app.post_message(Resize(size, size))


def chosen(app: MissionApp) -> Preferences:
    """In this session, with what it took up from those before; `app` may have ended."""
    app_context, view_state = app.app_context, app.view_state
    return Preferences(
        panes=view_state.panes,
        sort=view_state.sort,
        machine_sort=app_context.machine_sort,
        log_folds=app_context.log_folds,
        redraws_hz=app.arrivals.pace.rate_hz,
        strip_s=app_context.zoom.seconds,
        chart_over=app_context.chart.over,
        chart_scale=app_context.chart.scale,
        chart_smoothing=app_context.chart.factor,
        chart_kept=app_context.chart.kept,
        bell=not app_context.alarm.muted,
        watch_pixels=app_context.watch_pixels,
        shares=app_context.shares.as_table(),
        form=dict(app_context.kept_form or {}),
    )
