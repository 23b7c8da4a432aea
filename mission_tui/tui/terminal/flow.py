"""Pictures go to the terminal as fast as it takes them, and no faster: while it is behind nothing is drawn at all.

What changes meanwhile is drawn once it has caught up, as it is by then. Keys are heard and carried out all the while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

from textual.app import App

from mission_tui.tui.terminal.driver import MeteredDriver
from mission_tui.tui.terminal.write_window import WriteWindow

__all__ = ["Flow"]

_LOOK_S = 0.25


class Flow:
    """Between Textual's pictures and the driver; `clock` is monotonic seconds. Without a terminal it lets all through.

    Textual draws nothing while a batch of updates is open, and keeps what has changed; that is what holding is.
    """

    def __init__(self, app: App[Any], clock: Callable[[], float]) -> None:
        self._app, self._clock = app, clock
        self._window = WriteWindow()
        self._driver: MeteredDriver | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._context: Context | None = None
        self._counted = 0
        self._behind = False
        self._holding = False
        self._missed = False

    def start(self) -> None:
        """Begin to listen to the terminal, from within the application."""
        if isinstance(self._app._driver, MeteredDriver):
            self._driver = self._app._driver
            self._loop, self._context = asyncio.get_running_loop(), copy_context()
            self._driver.taken = lambda: self._call(self._poll) if self._holding else None
            self._driver.answered = lambda: self._call(self._answered)

    def rest_s(self) -> float:
        """Seconds for which a picture that nobody asked for has to wait, at least."""
        if self._driver is None:
            return 0.0
        return _LOOK_S if self._holding or self._driver.waiting else self._window.rest_s(self._clock())

    def holds(self, update: object) -> bool:
        """Whether `update` must not be drawn now. What is missed so is made up for by the whole picture."""
        if self._holding:
            self._missed = self._missed or update is not None
        elif self._driver is not None:
            self._behind = self._driver.waiting
        return self._holding

    def drew(self) -> None:
        """A picture was handed over; with another one waiting before it, or enough on the way, there is no next."""
        driver, now = self._driver, self._clock()
        if driver is None or driver.given == self._counted:
            return
        self._window.wrote(driver.given - self._counted)
        if self._window.wants_mark(now):
            driver.mark()
            self._window.marked(now)
        self._counted = driver.given
        if self._behind or self._window.full(now):
            self._holding = True
            self._app._begin_batch()
            self._poll()

    def _answered(self) -> None:
        self._window.answered(self._clock())
        self._poll()

    def _poll(self) -> None:
        if not self._holding or self._driver is None or self._loop is None:
            return
        if self._driver.waiting or self._window.full(self._clock()):
            if self._next_look is not None:
                self._next_look.cancel()
            self._next_look = self._loop.call_later(_LOOK_S, self._poll, context=self._context)
            return
        self._holding = False
        self._app._end_batch()
        if self._missed:
            self._missed = False
            self._app.screen.refresh()
        else:
            # What changed meanwhile may have come no further than the screen, which has to be told to look again.
            self._app.screen.check_idle()

    def _call(self, what: Callable[[], None]) -> None:
        """Have `what` done by the application, from a thread of the driver."""
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop has ended, and with it the screen
            self._loop.call_soon_threadsafe(what, context=self._context)
