"""Turns snapshots into pictures: always the newest, no more often than the chosen rate and the terminal allow.

What is new in one is announced by toasts, by the bell and by the terminal's own notification. What the first picture
does not need is loaded after it, before a person can have pressed a key.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

from textual.app import App
from textual.timer import Timer

from mission_tui.errors import MissionError
from mission_tui.fleet.events.metrics import RETURN, number
from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
from mission_tui.ipc.requests import GetHistory, GetSnapshot
from mission_tui.present import numbers
from mission_tui.tui.client import FleetClient, Loss
from mission_tui.tui.screens.snapshot_screen import SnapshotScreen
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.news import News, StaleNews, desktop_note, sentences
from mission_tui.tui.terminal.driver import Flow

_SETTLED_S = 0.1
_BEHIND_S = 5.0
"""Behind a sheet every cell is tinted: a changed number there paints all of the screen again, some 10 KB."""
_QUIET_S, _LOOK_S = 10.0, 2.0
"""Meters change a snapshot every second or two: a supervisor that sends none for so long is asked for one."""
_ANSWER_S = 5.0
_RATES_HZ = (0.25, 0.5, 1.0, 2.0, 4.0)
_MOST_RUNS = 8
"""So many runs are asked for: the supervisor keeps as many whole histories of ended runs in memory."""


class SnapshotArrivals:
    """The newest snapshot, and when it is drawn; `last_seen_t` (unix s) is that of an earlier look at this fleet."""

    def __init__(self, app: App[Any], app_context: AppContext, flow: Flow, last_seen_t: float | None) -> None:
        self._app, self._app_context, self._flow, self._before_t = app, app_context, flow, last_seen_t
        self.pace = DrawRate(app_context.preferences.redraws_hz)
        self._stale = StaleNews()
        self._newest: FleetSnapshot | None = None
        self._timer: Timer | None = None
        self._settled = False
        self._behind_t = float("-inf")
        self._received_t = app_context.clock()

    @property
    def last_seen_t(self) -> float | None:
        """The time of the newest snapshot that was seen, unix seconds."""
        return self._newest.t if self._newest else self._before_t

    @property
    def live(self) -> int:
        """How many runs were alive or waiting at the last look."""
        runs = self._newest.runs if self._newest else ()
        return sum(view.state in ALIVE or view.state == "queued" for view in runs)

    def arrived(self, snapshot: FleetSnapshot) -> None:
        """A snapshot came: draw it now, or with the newest by then when the last picture is too fresh."""
        if self._app_context.coming_back.update(snapshot):
            self._ask_best_returns()
        if sentence := self._stale.update(snapshot):
            self._app_context.announce(sentence, "warning")
        self._newest, self._received_t = snapshot, self._app_context.clock()
        if snapshot.replay is None:
            _alert(self._app_context, self._app, self._app_context.alarm.update(snapshot))
        if self._timer is None:
            self._draw_in(max(self.pace.due(self._app_context.clock()), self._flow.rest_s()))

    async def ask_when_silent(self, client: FleetClient) -> None:
        """For ever: ask a supervisor that is there and sends nothing for a snapshot, and say so if it does not answer.

        One that is stopped or waits for a disk ends no link, and old numbers look like those of this moment.
        """
        while True:
            await asyncio.sleep(_LOOK_S)
            received_t = self._received_t
            quiet = self._app_context.clock() - received_t >= _QUIET_S and self._app_context.banner is None
            if not quiet or self._newest is None or self._newest.replay is not None:
                continue
            question = asyncio.ensure_future(client.ask(lambda id_: GetSnapshot(id=id_)))
            try:
                done, _ = await asyncio.wait({question}, timeout=_ANSWER_S)
                if not done and self._received_t == received_t and self._app_context.banner is None:
                    self.lost(f"no answer within {_ANSWER_S:.0f} s", "silent")
                answer = await question
                if self._received_t == received_t:
                    self.arrived(answer.snapshot)
            except MissionError:
                continue  # the link ended, which whoever follows it says
            finally:
                question.cancel()

    def lost(self, why: str, loss: Loss) -> None:
        """The supervisor is gone or never came, was stopped on purpose, stands still, or refuses this screen."""
        state = "supervisor gone, reconnecting; runs go on"
        if loss == "refuses":
            state = "the supervisor refuses this screen: leave with q and start mission-tui again; runs go on"
        elif loss == "stopped":
            state = "the supervisor was stopped on request: F5 starts it again; runs go on"
        elif loss == "silent" and self._newest is not None:
            since = numbers.clock(self._newest.t, self._newest.t)
            state = f"the supervisor stands still: all that is shown is of {since}; runs go on"
        elif self._newest is None:
            state = "no supervisor yet, trying again"
        self._app_context.banner = f"{state} ({why})"
        self._app_context.first_answer.set()
        self.redraw_screens()
        self._settle()

    def redraw_screens(self) -> None:
        """Draw again what does not come with a snapshot: presets, the banner, the hint for undo."""
        for screen in self._app.screen_stack:
            if isinstance(screen, SnapshotScreen):
                screen.redraw()

    def _ask_best_returns(self) -> None:
        """Ask for the best returns of the runs that something happened to; the counts are drawn with the snapshot."""
        back = self._app_context.coming_back
        if back.away is not None:
            self._app_context.start(
                _fetch_best_returns(self._app_context, back.away.worth_a_look, back.best, self.redraw_screens)
            )

    def _draw_in(self, due_s: float) -> None:
        if due_s > 0:
            self._timer = self._app.set_timer(due_s, lambda: self._draw_in(self._flow.rest_s()))
        else:
            self._timer = None
            self._draw()

    def _draw(self) -> None:
        self.pace.drawn(self._app_context.clock())
        self._app_context.snapshot = self._newest
        self._app_context.first_answer.set()
        if self._app_context.banner is not None:
            self._app_context.banner = None
            self.redraw_screens()
        if not self._app.screen_stack:  # the program ends, and a picture was due
            return
        if not self._app.screen.is_modal or self._app_context.clock() - self._behind_t >= _BEHIND_S:
            self._behind_t = self._app_context.clock()
            self.catch_up()
        self._settle()

    def catch_up(self) -> None:
        """Show the newest snapshot where an older one stands: on the screen in front, and on questions over it.

        What that covers is drawn when it is seen again: its charts would cost a key up to 40 ms, four times a second.
        """
        stack = self._app.screen_stack
        front = max((at for at, screen in enumerate(stack) if not screen.is_modal), default=0)
        for screen in stack[front:]:
            if isinstance(screen, SnapshotScreen) and screen.snapshot is not self._app_context.snapshot:
                screen.snapshot = self._app_context.snapshot

    def _settle(self) -> None:
        if not self._settled:
            self._settled = True
            # Counted from the picture: on a busy machine the loading would otherwise come before it.
            self._app.call_after_refresh(self._app.set_timer, _SETTLED_S, self._prepare_for_keys)

    def _prepare_for_keys(self) -> None:
        import mission_tui.tui.verbs  # noqa: F401 - loaded here so that the first key finds it

        self._app_context.start(self._app_context.read_presets())
        self._app_context.start(self._app_context.learn_elsewhere())


def _alert(app_context: AppContext, app: App[Any], news: Sequence[News]) -> None:
    """Announce `news`; the bell and the terminal's notification only unless muted."""
    for sentence in sentences(news):
        app_context.announce(sentence, "error")
    if news and not app_context.alarm.muted:
        app.bell()
        if app._driver is not None and not app.is_headless:
            app._driver.write(desktop_note(news))


class DrawRate:
    """`due` is how long to wait before drawing; times are the caller's monotonic seconds.

    It begins at `rate_hz`, if that is one of the rates, else at the fastest.
    """

    def __init__(self, rate_hz: float = _RATES_HZ[-1]) -> None:
        self._at = _RATES_HZ.index(rate_hz) if rate_hz in _RATES_HZ else len(_RATES_HZ) - 1
        self._drawn = float("-inf")

    @property
    def rate_hz(self) -> float:
        """Redraws a second at most."""
        return _RATES_HZ[self._at]

    def turn(self, by: int) -> float:
        """One step faster or slower; returns the new rate."""
        self._at = max(0, min(self._at + by, len(_RATES_HZ) - 1))
        return self.rate_hz

    def due(self, now: float) -> float:
        """Seconds until the next picture may be drawn; 0 when it may be now."""
        return max(0.0, self._drawn + 1 / self.rate_hz - now)

    def drawn(self, now: float) -> None:
        """A picture was drawn."""
        self._drawn = now


async def _fetch_best_returns(
    app_context: AppContext, views: Sequence[RunView], known: dict[str, tuple[float, int]], changed: Callable[[], None]
) -> None:
    """Put the best return and its update into `known`, by run id, of up to `_MOST_RUNS` runs; then call `changed`."""
    for view in views[:_MOST_RUNS]:
        if view.id in known:
            continue
        run = view.id
        try:
            history = await app_context.ask(lambda id_, run=run: GetHistory(id=id_, run=run, series=(RETURN,)))  # type: ignore[misc]
        except MissionError:
            # Removed meanwhile, or the supervisor is gone: what is not known is not shown.
            continue
        highs = [(number(high), update) for high, update in zip(history.high[RETURN], history.updates, strict=True)]
        finite = [(high, update) for high, update in highs if high is not None and math.isfinite(high)]
        if finite:
            known[run] = max(finite, key=lambda pair: pair[0])
            changed()
