"""Checkpoint: the trainer saves at its next update boundary and goes on; whoever waits hears what came of it."""

from __future__ import annotations

import asyncio

from mission_tui.ipc.replies import Accepted, CheckpointOutcome
from mission_tui.ipc.requests import Act
from mission_tui.ipc.telemetry_messages import CheckpointAnswered, Order
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.run import AskedCheckpoint, LiveRun
from mission_tui.supervisor.targets import live_targets

__all__ = ["checkpoint"]

LONGEST_WAIT_S = 100.0
"""Before a client would give up on an answer."""


async def checkpoint(core: Core, request: Act) -> Accepted:
    """Ask the runs for a checkpoint, and wait for what comes of it as long as was asked; it shows in snapshots too."""

    def objection(run: LiveRun) -> str | None:
        state = core.store.run(run.id).state
        if state == "stopping":
            return "it is stopping, which saves one anyway"
        if state == "frozen":
            return "it is frozen; resume it first"
        return None if run.link is not None else "its trainer is not connected; try again in a moment"

    runs, notes = live_targets(core, request.runs, "checkpoint", objection)
    asked: list[tuple[LiveRun, AskedCheckpoint]] = []
    for run in runs:
        event = core.record_verb(run, "checkpoint")
        if request.wait_s > 0:
            order = AskedCheckpoint(event.seq, event.t, asyncio.get_running_loop().create_future())
            run.asked_checkpoints.append(order)
            asked.append((run, order))
        if run.link is not None:
            run.link.send(Order("checkpoint", number=event.seq))
    wait_s = min(request.wait_s, LONGEST_WAIT_S)
    outcomes = await asyncio.gather(*(_outcome(core, run, order, wait_s) for run, order in asked))
    return Accepted(re=request.id, runs=tuple(run.id for run in runs), notes=tuple(notes), checkpoints=tuple(outcomes))


async def _outcome(core: Core, run: LiveRun, order: AskedCheckpoint, wait_s: float) -> CheckpointOutcome:
    """What comes of `order` within `wait_s`, or before the run ends."""
    gone = asyncio.create_task(run.gone.wait())
    waits: set[asyncio.Future[object]] = {gone, order.answer}  # type: ignore[arg-type]
    try:
        await asyncio.wait(waits, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        if order in run.asked_checkpoints:
            run.asked_checkpoints.remove(order)
    answer: CheckpointAnswered | None = order.answer.result() if order.answer.done() else None
    if answer is None:
        newest = core.store.view(run.id).last_checkpoint if run.id in core.store.run_ids() else None
        left = f"; its newest checkpoint is {newest}" if newest else "; it has no checkpoint"
        over = "it ended before one was written" if run.gone.is_set() else f"none was written within {wait_s:g} s"
        later = "" if run.gone.is_set() else ": its next update boundary has not come, and it saves there"
        return CheckpointOutcome(run.id, None, f"{over}{later}{left}")
    return CheckpointOutcome(run.id, answer.checkpoint, answer.why)
