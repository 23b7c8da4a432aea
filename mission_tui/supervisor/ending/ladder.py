"""Stopping a run from here, for a while or for good: freeze and thaw it, or ask the trainer to end, then its keeper,
and climb the ladder ourselves only when the keeper is gone.

The keeper carries out the ladder and records it; each step has a timeout, its grace. What was asked before a supervisor
or a keeper died is carried on by the process that is left. The run's launcher knows whom to signal, or what to ask of
its engine. A process that survives SIGKILL is shown with pid, state and wait channel until it is gone.

`frozen` is what was seen, never what was hoped for: it is journaled when the processes stand, and taken back when the
trainer is seen running. So it stays true when another supervisor takes over, or when somebody else sends SIGSTOP. The
run's launcher stops every process of it but its keeper, where it can; nothing here is asked of one that cannot.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

from mission_tui.fleet.events.journal import ENDING, FleetEvent, RunFrozen, RunThawed
from mission_tui.fleet.events.processes import FlagSeen
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.records.runs.attempt import ExitRecord
from mission_tui.supervisor.host.process_files import StopStatus, process_in_words
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


LEAST_PATIENCE_S = 60.0
GRACE_S = 30.0
"""Where the spec, which has its own, cannot be read."""

SAVE_LOOK_S = 2.0
SAVE_GRACES = 4
"""As the keeper has them: a TERM may take so long, and four times that while a checkpoint visibly grows."""

COMMAND_PATIENCE_S = 5.0
"""How long a command that reports may take to see that it is to stop, before SIGTERM tells it."""

KILL_WAIT_S = 5.0
log = logging.getLogger(__name__)


def patience_s(runs: Runs, run: LiveRun) -> float:
    """How long a trainer may take to obey a stop: a minute, or twice the rollout and update measured last."""
    row = runs.store.run(run.id).metrics.row
    return LEAST_PATIENCE_S if row is None else max(LEAST_PATIENCE_S, 2.0 * (row.rollout_s + row.update_s))


def stop_gracefully(runs: Runs, run: LiveRun, keep: str = "") -> None:
    """Thaw the run and ask its trainer to save and stop; one that is not connected or does not obey is terminated.

    `keep` names a checkpoint that the trainer must not remove when it saves its last one.
    """
    thaw_run(runs, run)
    if run.link is None:
        _terminate(runs, run)
        return
    run.link.send(Order("stop", keep=(keep,) if keep else ()))
    if run.spec is None or run.spec.run.command is None:
        run.escalate_later(patience_s(runs, run), lambda: _terminate(runs, run))
    else:
        run.escalate_later(COMMAND_PATIENCE_S, lambda: _terminate_unless_saving(runs, run))


def _terminate_unless_saving(runs: Runs, run: LiveRun) -> None:
    """A command that reports may look for a stop or not; one that says it saves, or ends, has seen it."""
    if runs.store.run(run.id).observed.phase in ("saving", "ending"):
        run.escalate_later(patience_s(runs, run) - COMMAND_PATIENCE_S, lambda: _terminate(runs, run))
    else:
        _terminate(runs, run)


def resume_ending(runs: Runs, run: LiveRun) -> None:
    """The supervisor or keeper that was ending the run died: go on with what was asked. A trainer that connects again
    is asked once more.
    """
    asked = runs.store.run(run.id).journal.asked
    if "kill" in asked:
        kill_now(runs, run)
    elif asked & ENDING:
        run.escalate_later(patience_s(runs, run), lambda: _terminate(runs, run))


def kill_now(runs: Runs, run: LiveRun) -> None:
    """Kill every process of the run; without a keeper, check later whether that worked."""
    reached = run.launcher.kill(run.job)
    if reached == "trainer":
        run.escalate_later(KILL_WAIT_S, lambda: _admit(runs, run))
    elif reached == "nobody":
        log.warning("%s: no process to kill is known yet", run.id)


def _terminate(runs: Runs, run: LiveRun) -> None:
    reached = run.launcher.stop(run.job)
    if reached == "trainer":
        grace_s = GRACE_S if run.spec is None else run.spec.run.grace_s
        until = time.monotonic() + SAVE_GRACES * grace_s
        run.escalate_later(grace_s, lambda: _after_grace(runs, run, 0, until))
    elif reached == "nobody":
        log.warning("%s: no process to terminate is known yet", run.id)


def _after_grace(runs: Runs, run: LiveRun, before: int, until: float) -> None:
    """The trainer of a run without a keeper did not end in time: kill it, unless its checkpoint still grows."""
    saved = _unsaved_bytes(run)
    if saved != before and time.monotonic() < until:
        run.escalate_later(SAVE_LOOK_S, lambda: _after_grace(runs, run, saved, until))
    else:
        kill_now(runs, run)


def _admit(runs: Runs, run: LiveRun) -> None:
    """SIGKILL did not end the trainer of a run without a keeper: show that."""
    if runs.live.get(run.id) is run and run.lives():
        log.error("%s: even SIGKILL does not end %s", run.id, run.launcher.describe(run.job))
        runs.apply(run.id, FlagSeen("unkillable", raised=True))


def _unsaved_bytes(run: LiveRun) -> int:
    total = 0
    for member in run.dir.checkpoints.glob(".tmp-*/*"):
        with suppress(OSError):
            total += member.stat().st_size
    return total


def who_hangs(ended: ExitRecord) -> str:
    """Which processes of an ended attempt are still there: pid, state and what each waits for; empty when none is."""
    return ", ".join(process_in_words(left.pid, left.state, left.wchan) for left in ended.left if _exists(left.pid))


def flag_unkillable(core: Core, run_id: str, ended: ExitRecord) -> None:
    """Flag the run while a process that its keeper could not end is still there."""
    pids = tuple(left.pid for left in ended.left if _exists(left.pid))
    if pids:
        core.unkillable[run_id] = pids
        core.apply(run_id, FlagSeen("unkillable", raised=True))


def check_unkillable(core: Core) -> None:
    """Remove the flag from runs whose last process is gone."""
    for run_id, pids in list(core.unkillable.items()):
        if not any(map(_exists, pids)):
            del core.unkillable[run_id]
            if run_id in core.store:
                core.apply(run_id, FlagSeen("unkillable", raised=False))


def _exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
