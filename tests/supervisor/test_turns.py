"""Work of many small steps: the loop goes on beside it, and it is done while the loop has a lot to do."""

from __future__ import annotations

import asyncio

from mission_tui.supervisor.request_dispatcher import LoopBreaks
from tests.ipc.serving import held_up


async def passes_of(steps: int, slice_s: float, step_s: float = 0.0) -> int:
    """How often the loop came round while work of so many steps was done."""
    loop, passes, at_work = asyncio.get_running_loop(), 0, True

    def count() -> None:
        nonlocal passes
        passes += 1
        if at_work:
            loop.call_soon(count)

    loop.call_soon(count)
    await asyncio.sleep(0)
    passes, turns = 0, LoopBreaks(slice_s)
    for _ in range(steps):
        held_up(step_s)
        await turns.offer()
    at_work = False
    return passes


async def test_work_waits_for_others_by_the_time_that_it_takes_and_not_by_its_steps() -> None:
    """Two hundred quick steps are done at once, however many others wait; slow ones let them in between."""
    assert await passes_of(200, slice_s=5.0) == 0
    assert await passes_of(5, slice_s=0.01, step_s=0.02) == 5
