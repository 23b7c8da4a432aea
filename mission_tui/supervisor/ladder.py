"""Ending a run from here: ask the trainer, then its keeper; act ourselves only when the keeper is gone.

The keeper carries out the ladder and records it. Every signal goes through a held pidfd of a verified process.
"""

from __future__ import annotations

import asyncio
import logging
import signal

from mission_tui.ipc.telemetry_messages import Order
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.freezing import thaw_run
from mission_tui.supervisor.identity import Process
from mission_tui.supervisor.run import LiveRun

__all__ = ["end_gracefully", "end_now", "patience_s"]

LEAST_PATIENCE_S = 60.0
log = logging.getLogger(__name__)


def patience_s(core: Core, run: LiveRun) -> float:
    """How long a trainer may take to obey a stop: a minute, or twice the rollout and update measured last."""
    row = core.store.run(run.id).trained.row
    return LEAST_PATIENCE_S if row is None else max(LEAST_PATIENCE_S, 2.0 * (row.rollout_s + row.update_s))


def end_gracefully(core: Core, run: LiveRun, keep: str = "") -> None:
    """Thaw the run and ask its trainer to save and stop; one that is not connected or does not obey is terminated.

    `keep` names a checkpoint that the trainer must not remove when it saves its last one.
    """
    thaw_run(core, run)
    if run.link is None:
        _terminate(run)
        return
    run.link.send(Order("stop", keep=(keep,) if keep else ()))
    if run.escalation is not None:
        run.escalation.cancel()
    run.escalation = asyncio.get_running_loop().call_later(patience_s(core, run), _terminate, run)


def end_now(run: LiveRun) -> None:
    """Kill the run's tree: through its keeper, or the trainer's group ourselves when the keeper is gone."""
    if run.keeper is not None:
        _tell(run.keeper, signal.SIGQUIT)
    elif run.trainer is not None:
        run.trainer.send_to_group(signal.SIGKILL)
    else:
        log.warning("%s: nobody to kill is known yet", run.id)


def _terminate(run: LiveRun) -> None:
    process = run.keeper or run.trainer
    if process is None:
        log.warning("%s: nobody to terminate is known yet", run.id)
        return
    _tell(process, signal.SIGTERM)


def _tell(process: Process, number: signal.Signals) -> None:
    process.send(number)
    process.send(signal.SIGCONT)  # a stopped process hears nothing until it goes on
