"""A screen says now and then up to when it was seen, so that one which is killed was seen as well."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mission_tui.tui import session


async def test_what_was_seen_is_remembered_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing before the first snapshot, then each newer time once."""
    monkeypatch.setattr(session, "REMEMBER_S", 0.01)
    arrivals = SimpleNamespace(last_seen_t=None)
    told: list[float] = []
    heard = asyncio.Event()

    def remember(t: float) -> None:
        told.append(t)
        loop.call_soon_threadsafe(heard.set)

    loop = asyncio.get_running_loop()
    task = asyncio.create_task(session._remember(cast("Any", SimpleNamespace(arrivals=arrivals)), remember))
    for t in (5.0, 9.0):
        arrivals.last_seen_t = t
        await asyncio.wait_for(heard.wait(), 10)
        heard.clear()
    task.cancel()
    assert told == [5.0, 9.0]
