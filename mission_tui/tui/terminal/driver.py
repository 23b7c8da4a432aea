"""Textual's driver for terminals, which also knows what the terminal has taken: of what was written, and of marks. So
pictures are sent as fast as it takes them; while it is behind, nothing is drawn.

What changes meanwhile is drawn once it has caught up, as it is by then; keys are carried out all the while. A picture
in a queue is old before it is seen, and answers to keys queue behind it, so only a little may be on the way: a mark,
which a terminal answers, says when it has arrived. A terminal that answers none is trusted.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import termios
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import IO, Any, Literal

from textual.app import App
from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import CursorPosition
from textual.message import Message

from mission_tui.fleet.views.played_frame import Protocol
from mission_tui.tui.terminal.pixels import (
    QUERY,
    SIXEL_QUERY,
    AnswerParser,
    KittyPicture,
    Placed,
    SixelAnswers,
    SixelPicture,
    shows_pictures,
)

_MARK = "\x1b[6n"
"""Asks where the cursor is, which every terminal answers in its turn. Textual asks for it nowhere else."""
_FAREWELL_S = 0.5
_Asker = Literal["flow", "pictures"]
_USUAL_CELL = (8, 16)
"""Pixels of a cell, where the terminal does not say them."""


class MeteredDriver(LinuxDriver):
    """`given` are the characters written so far, `given_bytes` what they are on the line. `taken` is called, in the
    writing thread, when all of them are out of this process; `answered`, in the reading thread, when a mark has come to
    the terminal. `picture` is the one of pixels, in a terminal that shows them.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.given = self.given_bytes = 0
        self.taken: Callable[[], None] = _nothing
        self.answered: Callable[[], None] = _nothing
        self.picture: KittyPicture | SixelPicture = KittyPicture()
        self._of_itself = SixelAnswers()
        self._pictures: bool | None = None
        self._asked: deque[_Asker] = deque()
        self._marks = self._answers = 0
        assert self._file is not None
        self._tap = _TerminalFile(self._file, self)
        setattr(self, "_file", self._tap)  # noqa: B010 - declared as a text file, of which only two methods are used

    @property
    def waiting(self) -> bool:
        """Whether something was written that this process still holds, because the terminal does not read."""
        return self.given != self._tap.out

    def start_application_mode(self) -> None:
        """Take the terminal. What is handed over waits without a limit, which would be this thread's standstill."""
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual gives no types for it
        if self._writer_thread is not None:
            self._writer_thread._queue.maxsize = 0

    def write(self, data: str) -> None:
        """Hand over to the writing thread."""
        self.given += len(data)
        # A half block is one character and three bytes.
        self.given_bytes += len(data) if data.isascii() else len(data.encode("utf-8", "replace"))
        super().write(data)

    def mark(self, asker: _Asker = "flow") -> None:
        """Have the terminal answer once it has come so far."""
        self._marks += 1
        self._asked.append(asker)
        self.write(_MARK)

    def ask_for_pictures(self) -> None:
        """Ask the terminal whether it shows pictures of pixels. The mark after the question is answered by any: one
        that has not said yes by then does not.
        """
        if self._pictures is None and "pictures" not in self._asked:
            self.write(QUERY + SIXEL_QUERY)
            self.mark("pictures")

    @property
    def shows_pictures(self) -> bool:
        """Whether the terminal has said that it shows pictures of pixels."""
        return bool(self._pictures)

    @property
    def protocol(self) -> Protocol:
        """How it takes them."""
        return "kitty" if isinstance(self.picture, KittyPicture) else "sixel"

    def cell(self) -> tuple[int, int]:
        """The pixels of a cell, across and down."""
        try:
            lines, columns, width, height = struct.unpack("4H", fcntl.ioctl(self.fileno, termios.TIOCGWINSZ, b"\0" * 8))
        except OSError:
            return _USUAL_CELL
        across, down = (width // columns, height // lines) if columns and lines else (0, 0)
        return (across, down) if 0 < across <= 100 and 0 < down <= 100 else _USUAL_CELL

    def run_input_thread(self) -> None:
        """Read keys, without what the terminal answers about pictures."""
        # Textual makes its parser by this name, in this thread.
        parser = partial(
            AnswerParser, expects=lambda: "pictures" in self._asked, answered=self._said, told=self._of_itself.take
        )
        setattr(linux_driver, "XTermParser", parser)  # noqa: B010 - a class is expected there
        super().run_input_thread()

    def _said(self, answer: str) -> None:
        if shows_pictures(answer):
            self._pictures = True

    def process_message(self, message: Message) -> None:
        """Everything that was read goes to the application, but for the answers to marks."""
        if isinstance(message, CursorPosition):
            self._answers += 1
            asker = self._asked.popleft() if self._asked else "flow"
            if asker == "flow":
                self.answered()
            else:
                if not self._pictures and self._of_itself.yes:
                    self.picture, self._pictures = SixelPicture(), True
                self._pictures = bool(self._pictures)
        else:
            super().process_message(message)

    def _sigtstp_application(self, *arguments: object) -> None:
        """Give the terminal back and stop, between two turns of the loop: the signal comes amid any of them, where a
        picture may be noted that is not written yet, or the queue to the writing thread be locked.
        """
        self._loop.call_soon_threadsafe(super()._sigtstp_application, *arguments)

    def _sigcont_application(self, *arguments: object) -> None:
        """Go on. A process that was stopped by SIGSTOP gives the terminal back first: Textual would begin a second
        thread that reads keys, and at the end wait for the first one until another key is pressed. One that goes on in
        the background stops again: it would paint over the shell, and `fg` find it amid a read of a line. With a
        hang-up the kernel sends SIGCONT, too, and whoever stopped then was never woken again to leave.
        """
        if self._auto_restart and not self._must_signal_resume:
            in_front = self._in_front
            if in_front is None:
                return
            if not in_front:
                # The shell has the terminal, and of a job that it takes for running it would only wait for the end.
                os.kill(os.getpid(), signal.SIGTTOU)
                return
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application(*arguments)

    @property
    def _in_front(self) -> bool | None:
        """Whether the terminal is ours; a background process that writes to it is stopped again. None where it is gone,
        or /dev/null in its place already.
        """
        try:
            return os.tcgetpgrp(self.fileno) == os.getpgrp()
        except OSError:
            return None

    def stop_application_mode(self) -> None:
        """Give the terminal back, without our picture. An answer on its way would be typed into the shell, so it is
        waited for.
        """
        if gone := self.picture.take_away():
            self.write(gone)
        deadline = time.monotonic() + _FAREWELL_S
        while 0 < self._answers < self._marks and time.monotonic() < deadline:
            time.sleep(0.01)
        super().stop_application_mode()


class _TerminalFile:
    """The terminal's file as the writing thread uses it; `out` counts characters that the kernel has taken."""

    def __init__(self, file: IO[str], driver: MeteredDriver) -> None:
        self._file = file
        self._driver = driver
        self._held: list[str] = []
        self.out = 0

    def write(self, text: str) -> None:
        self._held.append(text)

    def flush(self) -> None:
        text, self._held = "".join(self._held), []
        self._file.write(text)
        self._file.flush()
        self.out += len(text)
        self._driver.taken()

    def fileno(self) -> int:
        return self._file.fileno()


def _nothing() -> None:
    pass


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
