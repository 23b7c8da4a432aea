"""Textual's driver for terminals, which also knows what the terminal has taken: of what was written, and of marks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import IO, Any

from textual.drivers.linux_driver import LinuxDriver
from textual.events import CursorPosition
from textual.message import Message

_MARK = "\x1b[6n"
"""Asks where the cursor is, which every terminal answers in its turn. Textual asks for it nowhere else."""
_FAREWELL_S = 0.5


class MeteredDriver(LinuxDriver):
    """`given` are the characters written so far, `given_bytes` what they are on the line. `taken` is called, in the
    writing thread, when all of them are out of this process; `answered`, in the reading thread, when a mark has come to
    the terminal.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.given = self.given_bytes = 0
        self.taken: Callable[[], None] = _nothing
        self.answered: Callable[[], None] = _nothing
        self._marks = self._answers = 0
        assert self._file is not None
        self._tap = _Tap(self._file, self)
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

    def mark(self) -> None:
        """Have the terminal answer once it has come so far."""
        self._marks += 1
        self.write(_MARK)

    def process_message(self, message: Message) -> None:
        """Everything that was read goes to the application, but for the answers to marks."""
        if isinstance(message, CursorPosition):
            self._answers += 1
            self.answered()
        else:
            super().process_message(message)

    def _sigcont_application(self, *arguments: object) -> None:
        """Go on. A process that was stopped by SIGSTOP gives the terminal back first: Textual would begin a second
        thread that reads keys, and at the end wait for the first one until another key is pressed.
        """
        if self._auto_restart and not self._must_signal_resume:
            if not self._in_front:
                return
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application(*arguments)

    @property
    def _in_front(self) -> bool:
        """Whether the terminal is ours; a background process that writes to it is stopped again."""
        try:
            return os.tcgetpgrp(self.fileno) == os.getpgrp()
        except OSError:
            return False

    def stop_application_mode(self) -> None:
        """Give the terminal back. An answer on its way would be typed into the shell, so it is waited for."""
        deadline = time.monotonic() + _FAREWELL_S
        while 0 < self._answers < self._marks and time.monotonic() < deadline:
            time.sleep(0.01)
        super().stop_application_mode()


class _Tap:
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
