"""Textual's driver for terminals, which also knows what the terminal has taken: of what was written, and of marks."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import IO, Any, Literal

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
