"""When a screen under Pilot has done all that it has to do: seen at the event loop, and not at the processor's time.

Textual's own way (8.2.8) sleeps for at least 20 ms, three times a key, until the process takes little of a core: a
third of what the tests of the screen took; and a process that waits for its turn on a busy machine looks idle to it.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

from textual import app as textual_app
from textual import pilot as textual_pilot

__all__ = ["wait_at_the_loop"]

SOON_S = 0.02
"""What is due within that time is waited for, once: Textual draws sixty times a second."""
TURNS = 3


def wait_at_the_loop() -> None:
    """Have every Pilot wait until the loop is quiet."""
    for module in (textual_app, textual_pilot):
        module.wait_for_idle = _until_quiet  # type: ignore[attr-defined]


async def _until_quiet(min_sleep: float = SOON_S, max_sleep: float = 1.0) -> None:
    """Wait until nothing is ready, no thread works for the loop, and no timer is due soon; a second at most."""
    loop: Any = asyncio.get_running_loop()
    begun, quiet = loop.time(), 0
    while (passed_s := loop.time() - begun) < max_sleep:
        await asyncio.sleep(0)
        if loop._ready:
            quiet = 0
        elif _threads_work(loop):
            quiet = 0
            await asyncio.sleep(0.001)
        elif (quiet := quiet + 1) >= TURNS:
            due_s = min((timer._when for timer in loop._scheduled if not timer._cancelled), default=math.inf)
            if passed_s >= max(SOON_S, min_sleep) or (due_s > loop.time() + SOON_S and not min_sleep):
                return
            quiet = 0
            await asyncio.sleep(max(0.0, min(due_s - loop.time(), SOON_S)))


def _threads_work(loop: Any) -> bool:
    executor = loop._default_executor
    return executor is not None and executor._idle_semaphore._value < len(executor._threads)
