"""A watcher of GPUs for tests, and beating until it has seen something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from mission_tui.supervisor.gpu.watch import GpuWatch
from tests.waiting import until

__all__ = ["meets", "watch"]


@pytest.fixture
async def watch() -> AsyncIterator[GpuWatch]:
    """A watcher whose probe is ended afterwards."""
    made = GpuWatch()
    yield made
    made.close()
    await asyncio.to_thread(until, lambda: not made._abandoned)


async def meets(watch: GpuWatch, condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Beat until the condition holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            watch.tick(wanted=True)
            await asyncio.sleep(0.02)
