"""Checkpoints that somebody asks for while runs train, and what comes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from mission_tui.ipc.replies import CheckpointOutcome
from mission_tui.ipc.telemetry_messages import CheckpointAnswered, Order
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import AskedCheckpoint, LiveRun
from mission_tui.supervisor.runs.registry import Runs

LONGEST_WAIT_S = 100.0
"""Before a client would give up on an answer."""


async def ask_checkpoints(core: Core, runs: Iterable[LiveRun], wait_s: float) -> tuple[CheckpointOutcome, ...]:
    """Ask each of `runs` for a checkpoint, and wait for what comes of it, `LONGEST_WAIT_S` at most; with a `wait_s` of
    0 nothing is waited for, and nothing is known yet.
    """
    asked: list[tuple[LiveRun, AskedCheckpoint]] = []
    for run in runs:
        event = core.record_verb(run, "checkpoint")
        if wait_s > 0:
            asked.append((run, run.ask_checkpoint(event.seq, event.t)))
        run.send(Order("checkpoint", number=event.seq))
    wait_s = min(wait_s, LONGEST_WAIT_S)
    return tuple(await asyncio.gather(*(_outcome(core, run, order, wait_s) for run, order in asked)))


async def _outcome(runs: Runs, run: LiveRun, order: AskedCheckpoint, wait_s: float) -> CheckpointOutcome:
    """What comes of `order` within `wait_s`, or before the run ends."""
    gone = asyncio.create_task(run.gone.wait())
    waits: set[asyncio.Future[object]] = {gone, order.answer}  # type: ignore[arg-type]
    try:
        await asyncio.wait(waits, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        run.stop_waiting_for(order)
    answer: CheckpointAnswered | None = order.answer.result() if order.answer.done() else None
    if answer is None:
        newest = runs.store.view(run.id).last_checkpoint if run.id in runs.store else None
        left = f"; its newest checkpoint is {newest}" if newest else "; it has no checkpoint"
        over = "it ended before one was written" if run.gone.is_set() else f"none was written within {wait_s:g} s"
        later = "" if run.gone.is_set() else ": its next update boundary has not come, and it saves there"
        return CheckpointOutcome(run.id, None, f"{over}{later}{left}")
    return CheckpointOutcome(run.id, answer.checkpoint, answer.why)
