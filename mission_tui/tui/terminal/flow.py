"""Sends pictures to the terminal as fast as it takes them; while it is behind, nothing is drawn.

What changes meanwhile is drawn once it has caught up, as it is by then; keys are carried out all the while. A picture
in a queue is old before it is seen, and answers to keys queue behind it, so only a little may be on the way: a mark,
which a terminal answers, says when it has arrived. A terminal that answers none is trusted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

from textual.app import App

from mission_tui.fleet.views.played_frame import Protocol
from mission_tui.tui.terminal.driver import MeteredDriver
from mission_tui.tui.terminal.pixels import Placed

_LOOK_S = 0.25
_LEAST, _FIRST, _MOST = 2 << 10, 8 << 10, 64 << 10
"""On the way: fewer than the least would be no picture, more than the most too long to wait for."""
_QUICK_S, _SLOW_S = 0.15, 0.4
"""How long a mark may have queued: below the one more may be on the way, above the other less (as in TCP Vegas)."""
_MARK_S = 2.0
_LATE_S = 1.0
_LOST_S = 10.0
"""A mark that is not answered for so long may have been lost; were all of them waited for, nothing would be drawn."""
_TRIES, _MORE_TRIES = 4, 30
"""Marks without an answer after which no more are written, to a terminal that never answered and to one that did."""
_TRIPS = 20
_MOST_REST_S = 5.0
_AGAIN_S = 60.0
"""For so long after the line was slow there are no pictures of pixels."""


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
        self._slow_t = float("-inf")

    def start(self) -> None:
        """Begin to listen to the terminal, from within the application."""
        if isinstance(self._app._driver, MeteredDriver):
            self._driver = self._app._driver
            self._loop, self._context = asyncio.get_running_loop(), copy_context()
            self._driver.taken = lambda: self._call(self._poll) if self._holding else None
            self._driver.answered = lambda: self._call(self._answered)

    @property
    def given_bytes(self) -> int:
        """What was written so far."""
        return 0 if self._driver is None else self._driver.given_bytes

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
        if driver is not None and (news := driver.picture.news):
            driver.write(news)
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

    def show_picture(self, placed: Placed | None) -> None:
        """Show this picture of pixels over the cells, or none; once the terminal takes it, if it is behind."""
        if self._driver is not None:
            self._driver.picture.wanted = placed
            if placed is None:
                self.take_picture_away()
            elif not self.holds(None):
                self.drew()

    def take_picture_away(self) -> None:
        """At once; it comes again with what is drawn next if it is still wanted."""
        if self._driver is not None and (gone := self._driver.picture.take_away()):
            self._driver.write(gone)

    def picture_cell(self) -> tuple[int, int] | None:
        """The pixels of a cell where the terminal has said that it shows pictures of pixels, which the first call asks,
        and where the line was not slow lately.
        """
        if self._driver is None:
            return None
        if self._window.slow:
            self._slow_t = self._clock()
        self._driver.ask_for_pictures()
        quick = self._clock() - self._slow_t > _AGAIN_S
        return self._driver.cell() if quick and self._driver.shows_pictures else None

    @property
    def pixel_protocol(self) -> Protocol:
        """How the terminal takes pictures of pixels."""
        return "kitty" if self._driver is None else self._driver.protocol

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


class WriteWindow:
    """Times are monotonic seconds of the caller, sizes characters. `window` is how much may be on the way."""

    def __init__(self) -> None:
        self.window = _FIRST
        self._written = 0
        self._arrived = 0
        self._marks: deque[tuple[int, float]] = deque()
        self._newest: tuple[int, float] = (0, float("-inf"))
        self._trips: deque[float] = deque(maxlen=_TRIPS)
        self._unanswered = 0
        self._rest_until = float("-inf")

    def wrote(self, size: int) -> None:
        """So much was written."""
        self._written += size

    def wants_mark(self, now: float) -> bool:
        """Whether the terminal is to be asked for a sign once it has come so far."""
        if self._unanswered >= (_MORE_TRIES if self._trips else _TRIES) or (self._marks and not self._trips):
            return False
        size, t = self._newest
        more = self._written - size
        return more > 0 and (more >= self.window // 2 or now - t >= _MARK_S or (self.slow and not self._marks))

    def marked(self, now: float) -> None:
        """A mark was written."""
        self._newest = self._written, now
        self._marks.append(self._newest)

    def answered(self, now: float) -> None:
        """The terminal has come to the oldest mark that it has not answered yet."""
        if not self._marks:
            return
        size, t = self._marks.popleft()
        carried, self._arrived, self._unanswered = size - self._arrived, size, 0
        self._trips.append(now - t)
        queued = now - t - min(self._trips)
        if queued < _QUICK_S and carried >= self.window // 4:
            self.window = min(_MOST, 2 * self.window)
        elif queued > _SLOW_S:
            self.window = max(_LEAST, self.window // 2)
        self._rest_until = now + min(_MOST_REST_S, queued)

    def full(self, now: float) -> bool:
        """Whether nothing more may be written, not even what a key asks for."""
        self._write_off(now)
        return bool(self._trips and self._marks) and self._written - self._arrived >= self.window

    def rest_s(self, now: float) -> float:
        """How long a picture that nobody asked for has to wait yet; nothing where the line keeps up."""
        if self.full(now):
            return _QUICK_S
        if self._trips and self._marks and (self.slow or now - self._marks[0][1] > min(self._trips) + _LATE_S):
            return _QUICK_S
        return max(0.0, self._rest_until - now)

    @property
    def slow(self) -> bool:
        """Pictures that nobody asked for then go one at a time."""
        return self.window < _FIRST

    def _write_off(self, now: float) -> None:
        while self._marks and now - self._marks[0][1] > _LOST_S:
            self._arrived, _ = self._marks.popleft()
            self._unanswered += 1
