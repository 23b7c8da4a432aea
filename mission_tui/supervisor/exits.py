"""Hearing that a held process has exited: from its pidfd, or by looking four times a second where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mission_tui.supervisor.identity import NO_PIDFD, Process

__all__ = ["LOOK_S", "Exits"]

LOOK_S = 0.25


class Exits:
    """Who is listened for. Each process has one listener; a later one takes the place of an earlier."""

    def __init__(self) -> None:
        self._looking: dict[Process, asyncio.TimerHandle] = {}

    def watch(self, process: Process, gone: Callable[[], None]) -> None:
        """Call `gone` once when the process has exited."""
        loop = asyncio.get_running_loop()
        self.forget(process)

        def exited() -> None:
            self.forget(process)
            gone()

        def look() -> None:
            if process.alive():
                self._looking[process] = loop.call_later(LOOK_S, look)
            else:
                exited()

        if process.fd != NO_PIDFD:
            loop.add_reader(process.fd, exited)
        else:
            self._looking[process] = loop.call_later(LOOK_S, look)

    def forget(self, process: Process) -> None:
        """Listen no more; must come before the process is let go."""
        if process.fd != NO_PIDFD:
            asyncio.get_running_loop().remove_reader(process.fd)
        elif (timer := self._looking.pop(process, None)) is not None:
            timer.cancel()
