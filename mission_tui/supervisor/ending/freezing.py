"""Freezing and thawing a run, and noticing when somebody else did either.

`frozen` is what was seen, never what was hoped for: it is journaled when the processes stand, and taken back when the
trainer is seen running. So it stays true when another supervisor takes over, or when somebody else sends SIGSTOP. The
run's launcher stops every process of it but its keeper, where it can; nothing here is asked of one that cannot.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Literal

from mission_tui.fleet.events.journal import FleetEvent, RunFrozen, RunThawed
from mission_tui.supervisor.host.process_files import StopStatus
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.registry import Runs

By = Literal["asked", "outside"]

SETTLE_S = 2.0
ROUND_S = 0.02


async def freeze_run(core: Core, run: LiveRun) -> StopStatus | None:
    """Stop every process of the run and journal how they stand; None when it ended or was thawed meanwhile.

    A process that forks while it is stopped is met in the next round: there are rounds until no process runs, for two
    seconds. A process that runs even then (it hangs in the kernel, and stops when it leaves it) is named.
    """
    run.freeze()
    deadline = time.monotonic() + SETTLE_S
    # The kernel tells nobody but a parent that a process stopped.
    while _may_freeze(core, run) and run.launcher.freeze(run.job) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(ROUND_S)
    if not _may_freeze(core, run):
        return None
    stand = await asyncio.to_thread(run.launcher.stop_status, run.job, core.machine.gpu.held)
    if not _may_freeze(core, run):
        return None
    core.record_observed(run, partial(_frozen, run.attempt, "asked", stand))
    return stand


def thaw_run(runs: Runs, run: LiveRun) -> None:
    """Let every stopped process of the run go on; journaled when it was frozen. What an engine suspended stays so."""
    run.thaw()
    if not run.launcher.can.freezes:
        return
    run.launcher.thaw(run.job)
    if runs.store.run(run.id).journal.frozen is not None:
        runs.record_observed(run, lambda seq, t: RunThawed(seq, t, run.attempt))


def take_up_freeze(core: Core, run: LiveRun, asked: bool) -> None:
    """After a restart: finish a freeze that was asked for and not seen done. One beat later its state is checked
    anyway.
    """
    known = core.store.run(run.id)
    if known.journal.frozen is not None:
        run.freeze()
    if asked and known.state not in ("frozen", "stopping") and run.job_status.trains and run.launcher.can.freezes:
        run.finish_freeze(asyncio.create_task(freeze_run(core, run), name=f"freeze {run.id}"))


def watch_stops(core: Core, run: LiveRun) -> None:
    """Once a beat: take in that somebody stopped the trainer, or its engine has, or that it runs although it was
    frozen.
    """
    known = core.store.run(run.id)
    suspended = "" if run.launcher.can.freezes else run.poll().suspended
    stops = run.launcher.is_frozen(run.job) if run.launcher.can.freezes else bool(suspended)
    if stops is None or known.state == "stopping":
        return
    if not stops:
        run.count_stopped(stopped=False)
        if known.journal.frozen is not None:
            run.thaw()
            core.record_observed(run, lambda seq, t: RunThawed(seq, t, run.attempt, by="outside"))
    # Twice in a row: a debugger or a shell may stop a process for a moment.
    elif known.journal.frozen is None and not run.freezes and run.count_stopped(stopped=True) > 1:
        if suspended:
            core.record_observed(run, lambda seq, t: RunFrozen(seq, t, run.attempt, "outside", why=suspended))
            return
        stand = run.launcher.stop_status(run.job, core.machine.gpu.held)
        core.record_observed(run, partial(_frozen, run.attempt, "outside", stand))


def _may_freeze(runs: Runs, run: LiveRun) -> bool:
    return run.freezes and runs.live.get(run.id) is run


def _frozen(attempt: int, by: By, stand: StopStatus, seq: int, t: float) -> FleetEvent:
    memory, vram = stand.memory_bytes, stand.vram_bytes
    return RunFrozen(seq, t, attempt, by, stand.stopped, stand.running, memory, stand.gpu, vram)
