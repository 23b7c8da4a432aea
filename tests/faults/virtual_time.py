"""An event loop for a supervisor whose machine is simulated: waiting passes the world's time, threads work at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from unittest import mock

from tests.faults.simulated import World

__all__ = ["virtual_loop"]


class _Selector(selectors.DefaultSelector):
    """Waiting passes virtual time."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if not ready and timeout != 0:
            self._world.pass_until(self._world.now + (3600.0 if timeout is None else max(0.0, timeout)))
            ready = super().select(0)
        return ready


class _AtOnce(ThreadPoolExecutor):
    """Work for threads is done at once: there is nobody to run beside it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as a thread would hand it over
            done.set_exception(error)
        return done


@contextmanager
def virtual_loop(world: World) -> Iterator[asyncio.SelectorEventLoop]:
    """An event loop, and `time`, that know no other time than the world's."""
    with (
        mock.patch("time.monotonic", world.monotonic),
        mock.patch("time.time", world.clock),
        mock.patch("mission_tui.supervisor.runs.clock_steps.boottime", world.monotonic),
        # Its processes are numbers: they began at no moment of any clock.
        mock.patch("mission_tui.supervisor.lifecycle.adoption.missed_step", return_value=None),
        mock.patch("mission_tui.supervisor.launchers.engine.ThreadPoolExecutor", _AtOnce),
    ):
        loop = asyncio.SelectorEventLoop(_Selector(world))
        loop.set_default_executor(_AtOnce())
        loop.set_exception_handler(world.failed)
        world.loop = loop
        try:
            yield loop
        finally:
            world.loop = None
            loop.close()
