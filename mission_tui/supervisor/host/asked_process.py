"""A short process that is asked line by line: a question on its stdin, one JSON object as the answer.

It does nothing that was not asked, so nothing queues; it ends with `end`, and when nobody asks for a while.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any, cast

from mission_tui.supervisor.host.stderr_tail import StderrTail
from mission_tui.supervisor.host.tasks import (
    DeathError,
    Task,
    TaskError,
    death_of,
    objects_of,
    refusal_in,
    start_task,
)

IDLE_S = 300.0
"""So long it lives without a question."""


class AskedProcess:
    """A process that is `task`, started at once. Raises `TaskError` where that is not possible."""

    def __init__(self, task: Task, idle_s: float = IDLE_S) -> None:
        self._task, self._idle_s = task, idle_s
        self._ended, self._death = False, ""
        self._loop = asyncio.get_running_loop()
        self._code: asyncio.Future[int] = self._loop.create_future()
        self._complaints = StderrTail()
        self._idle = self._loop.call_later(idle_s, self.end)
        try:
            self._child = start_task(task, subprocess.PIPE, self._complaints, self._code)
        except TaskError:
            self._idle.cancel()
            self._complaints.close()
            raise
        self._said = cast("AsyncGenerator[dict[str, Any]]", objects_of(self._child))
        self._asking = asyncio.Lock()
        self._finishing = asyncio.create_task(self._finish())

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def ended(self) -> bool:
        """Whether it was ended here: by `end`, or because nobody asked for long."""
        return self._ended

    async def check(self) -> None:
        """Raise `DeathError` with how it ended if it has, and nobody here wanted that."""
        if self._code.done() and not self._ended:
            await asyncio.shield(self._finishing)
            raise DeathError(self._death)

    async def ask(self, question: bytes, limit_s: float) -> dict[str, Any]:
        """Its answer to one line, which is awaited before the next is asked.

        Raises `TaskError` with its refusal, when it dies, and when it does not answer within `limit_s`: it is then
        ended.
        """
        async with self._asking:
            self._idle.cancel()
            answer = await self._answer(question, limit_s)
            if (refusal := refusal_in(answer)) is not None:
                self.end()
                raise refusal
            self._idle = self._loop.call_later(self._idle_s, self.end)
            return answer

    async def _answer(self, question: bytes, limit_s: float) -> dict[str, Any]:
        stdin = self._child.stdin
        if stdin is None or stdin.closed:
            raise DeathError("its process has ended")
        try:
            async with asyncio.timeout(limit_s):
                with suppress(BrokenPipeError):
                    stdin.write(question + b"\n")
                    stdin.flush()
                answer = await anext(self._said, None)
                if answer is None:
                    code = await asyncio.shield(self._code)
                    raise DeathError(death_of(self._task, code, self._complaints))
                return answer
        except TimeoutError:
            self.end()
            raise DeathError(f"it did not answer within {limit_s:g} s and was ended") from None
        except ValueError:  # a line that is longer than a reader takes
            self.end()
            raise DeathError("its answer was too large, so it was ended") from None

    def end(self) -> None:
        """Kill it, with whatever it has started."""
        self._idle.cancel()
        self._ended = True
        if not self._code.done():
            # Nobody has waited for it yet, so its number is its own; it leads a process group.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.kill()

    async def _finish(self) -> None:
        """Close what leads to it, once it has ended and whoever asks has been told."""
        await self._code
        self._idle.cancel()
        async with self._asking:
            self._death = death_of(self._task, self._code.result(), self._complaints)
            await self._said.aclose()
            stdin = self._child.stdin
            if stdin is not None:
                with suppress(BrokenPipeError):
                    stdin.close()
            self._complaints.close()
