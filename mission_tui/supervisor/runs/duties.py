"""The supervisor's own duties that fail: a meter that cannot be read, a process that could not be started.

Each is in the fleet's journal once for each reason, counted, and shown in every snapshot until it succeeds again. What
one of them raises ends neither the others nor the supervisor.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from mission_tui.fleet.events.findings import FailedDuty, failed_again
from mission_tui.fleet.text import clean

log = logging.getLogger(__name__)
Result = TypeVar("Result")
GPU_METERS = "GPU meters"
"""This duty's failure is in the machine's own note."""

AGAIN_S = 600.0
"""A duty that fails for the same reason every other time is not journaled each time."""


class _Journal(Protocol):
    def duty_failed(self, duty: str, why: str) -> None: ...

    def duty_done_again(self, duty: str, times: int) -> None: ...


def reason_of(error: BaseException) -> str:
    """What `error` says, in one line."""
    said = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
    return clean(said.removesuffix(": "), 300)


class Duties:
    """Those that fail now, by name. `show` takes them whenever they change."""

    def __init__(self, journal: _Journal, show: Callable[[tuple[FailedDuty, ...]], None]) -> None:
        self._journal = journal
        self._show = show
        self.failed: dict[str, FailedDuty] = {}
        self._journaled: dict[str, tuple[str, float]] = {}
        """The reason that was journaled last, by duty, and when (monotonic)."""
        self._told_done: set[str] = set()

    def attempt(self, duty: str, work: Callable[[], Result], otherwise: Result) -> Result:
        """What `work` returns, or `otherwise` where it raises: the reason is then a fact."""
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - whatever one duty raises must end no other
            self.fail(duty, reason_of(error), error)
            return otherwise
        self.done(duty)
        return result

    def report(self, duty: str, why: str) -> None:
        """`duty` failed because of `why`; it was done where that is empty."""
        if why:
            self.fail(duty, why)
        else:
            self.done(duty)

    def follow(self, duty: str, task: asyncio.Task[Any]) -> None:
        """Take in how `task`, which carries out `duty`, ends."""

        def ended(task: asyncio.Task[Any]) -> None:
            if task.cancelled():
                return
            error = task.exception()
            if error is None:
                self.done(duty)
            else:
                self.fail(duty, reason_of(error), error)

        task.add_done_callback(ended)

    def fail(self, duty: str, why: str, error: BaseException | None = None) -> None:
        """Take in that `duty` failed because of `why`."""
        known = self.failed.get(duty)
        news = failed_again(known, duty, why, time.time())
        self.failed[duty] = news
        said, at = self._journaled.get(duty, ("", 0.0))
        if said != news.why or (known is None and time.monotonic() - at > AGAIN_S):
            log.warning("%s failed: %s", duty, why, exc_info=error)
            # Before it is written: the journal itself may be what fails.
            self._journaled[duty] = news.why, time.monotonic()
            self._told_done.discard(duty)
            self._journal.duty_failed(duty, news.why)
        self._show(tuple(self.failed.values()))

    def done(self, duty: str) -> None:
        """`duty` was done."""
        known = self.failed.pop(duty, None)
        if known is not None:
            if duty not in self._told_done:
                self._journal.duty_done_again(duty, known.times)
            self._told_done.add(duty)
            self._show(tuple(self.failed.values()))
