"""The end of the terminal: hang-up, with or without a signal, and termination end the screen within two seconds.

Textual's (8.2.8) input thread spins when its terminal is gone (Textualize/textual#6690), and its output may block for
ever, so a thread of our own waits for the hang-up in the kernel (no polling), puts /dev/null in the terminal's place,
and has the last word.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_HUNG_UP = 129
_GRACE_S = 1.2


def watch_signals(leave: Callable[[int], None]) -> None:
    """Leave in order on SIGTERM, and on SIGHUP unless the caller's parent had it ignored (`nohup`)."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, leave, 128 + signal.SIGTERM)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, _hung_up, leave)


@contextmanager
def watched_terminal(terminal_fd: int, leave: Callable[[int], None]) -> Iterator[None]:
    """Until the block ends, a thread waits for `terminal_fd` to hang up; then it leaves in order, or without if that
    takes too long.
    """
    # A descriptor of its own: the first to notice the hang-up replaces the terminal's, and the kernel, when it wakes
    # a poll, looks at what the number stands for by then.
    watched = os.dup(terminal_fd)
    over, running = os.pipe()
    loop = asyncio.get_running_loop()

    def wait() -> None:
        poll = select.poll()
        for fd in (watched, over):
            poll.register(fd, 0)  # hang-up and error are reported without being asked for
        gone = watched in dict(poll.poll())
        os.close(watched)
        os.close(over)
        if gone:
            _end(loop, leave)

    threading.Thread(target=wait, name="terminal-watch", daemon=True).start()
    try:
        yield
    finally:
        os.close(running)


def _end(loop: asyncio.AbstractEventLoop, leave: Callable[[int], None]) -> None:
    _replace_terminal()
    try:
        loop.call_soon_threadsafe(leave, _HUNG_UP)
    except RuntimeError:
        return  # the loop has ended by itself meanwhile
    threading.Event().wait(_GRACE_S)
    os._exit(_HUNG_UP)


def _hung_up(leave: Callable[[int], None]) -> None:
    _replace_terminal()
    leave(_HUNG_UP)


def _replace_terminal() -> None:
    """Reads end and writes vanish from now on, instead of failing in threads that handle no errors.

    A terminal that hung up no longer says that it is one, so any character device counts.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        if stat.S_ISCHR(os.fstat(fd).st_mode):
            os.dup2(null, fd)
    os.close(null)
