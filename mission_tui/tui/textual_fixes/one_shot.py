"""A timer that is to go off once always does.

Textual (8.2.8) skips the moments of a timer that are past by the time it looks. One that goes off once has no other
moment: it never goes off where its delay is some microseconds, or where the process gets no core for so long. The next
picture waits for such a timer, so the screen still took keys but went on showing the numbers of that moment.
"""

from __future__ import annotations

from textual.message_pump import MessagePump
from textual.timer import Timer, TimerCallback

_set_timer = MessagePump.set_timer


def late_rather_than_never() -> None:
    """Have whatever is to happen once happen, however late; to be called before the first timer is set."""
    setattr(MessagePump, "set_timer", _set_unskipped)  # noqa: B010 - a method of Textual's


def _set_unskipped(
    pump: MessagePump,
    delay: float,
    callback: TimerCallback | None = None,
    *,
    name: str | None = None,
    pause: bool = False,
) -> Timer:
    timer = _set_timer(pump, delay, callback, name=name, pause=pause)
    timer._skip = False  # its task has not begun
    return timer
