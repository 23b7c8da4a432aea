"""``python -m mission_tui.trainer RUN_DIR ATTEMPT [--checkpoint NAME]``: trains one attempt of a run.

The exit code is 0 after finished or stopped, 1 after a failure, 78 for a bad preset; the `end` record says the rest.
Torch is imported only once signals are handled, and never by a worker process that imports the main module again.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from mission_tui.errors import MissionError
from mission_tui.fence import Fence
from mission_tui.forks import guard_forks, leave_fork
from mission_tui.procfs import call_process
from mission_tui.trainer import process
from mission_tui.trainer.failures import CallbackError, Failure, classify, complain
from mission_tui.trainer.orders import Attempt, Link, Orders
from mission_tui.trainer.record import Record, write_timed_metrics
from mission_tui.trainer.running_time import notice_stops

if TYPE_CHECKING:
    from mission_tui.fleet.specs.spec import Spec
    from mission_tui.trainer.training import Job


_LEAVE_S = 15.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, record how it ended, and return the process's exit code."""
    attempt = Attempt.parse(arguments)
    guard_forks()
    call_process("trainer", attempt.run_dir.id, str(attempt.run_dir.path), str(attempt.number), brief="train")
    try:
        process.check_lease(os.environ, attempt.run_dir.lease)
    except MissionError as error:
        complain(str(error))
        return error.exit_code
    process.keep_lease_private(os.environ)
    # A keeper gives the trainer a session of their own; started by hand, the session is somebody's terminal.
    process.lower_priority(own_session="MISSION_TUI_LEASE_FD" in os.environ)
    notice_stops()
    fence = Fence(attempt.run_dir.path, attempt.number, os.environ.get("MISSION_TUI_NONCE", ""))
    fence.check()
    link = Link(attempt, os.environ, fence)
    # Environments and callbacks may use `mission_tui.report`; the trainer itself speaks for this run.
    os.environ.pop("MISSION_TUI_TELEMETRY", None)
    orders = Orders(link.orders)
    orders.obey_signals()
    try:
        with Record(attempt.run_dir, attempt.number, link.send, fence) as record:
            return train(attempt, record, orders, link, _leave_soon)
    except MissionError as error:
        # Nothing can be recorded where the record itself cannot be opened.
        complain(str(error))
        return error.exit_code
    finally:
        leave_fork(sys.exc_info()[1])
        link.close()


def train(
    attempt: Attempt, record: Record, orders: Orders, link: Link, settled: Callable[[int], None] = lambda _code: None
) -> int:
    """Everything between the first and the last record of the attempt.

    `settled` hears the exit code as soon as that record is written: what follows only puts things away.
    """
    record.phase("starting")
    job: Job | None = None
    try:
        spec = attempt.read_spec()
        with process.collecting_later():
            process.cap_threads(spec.run.threads or 1)
            from mission_tui.envs.channel import record_shared_names
            from mission_tui.trainer.torch_compiler import load_compiler, load_everything, use_plain_optimizers
            from mission_tui.trainer.training import Job

            use_plain_optimizers()
            load_everything()
            if spec.run.compile:
                load_compiler()
        record_shared_names(os.environ)
        job = Job(attempt, spec, record, orders, link)
        how = job.train()
        leave_fork()
        record.ended(how, job.checkpoint, cause=job.cause, unsaved=job.unsaved)
        _write_timed(attempt, spec, finished=how == "finished")
        settled(0)
    except Exception as error:  # noqa: BLE001 - the edge of the process: whatever it is becomes the last record
        leave_fork(error)
        failure = classify(error)
        explain(error, failure)
        checkpoint = job.save_after_failure(failure) if job else attempt.checkpoint
        record.ended("failed", checkpoint, failure, unsaved=job.unsaved if job else "")
        settled(failure.exit_code)
        return failure.exit_code
    else:
        return 0
    finally:
        # What an environment forked, and came back here, must close nothing of the training.
        leave_fork(sys.exc_info()[1])
        if job is not None:
            job.close()


def _write_timed(attempt: Attempt, spec: Spec, *, finished: bool) -> None:
    """Beside the rows of a run with a budget in seconds; what it learned is safe already."""
    try:
        write_timed_metrics(attempt.run_dir, attempt.number, spec, finished=finished)
    except (MissionError, OSError) as error:
        complain(f"benchmark_metrics.json could not be written: {error}")


def explain(error: Exception, failure: Failure) -> None:
    """One line on stderr for what the person can mend, a traceback for everything else."""
    own_sentence = isinstance(error, MissionError)
    if not own_sentence or failure.kind == "env" or isinstance(error, CallbackError):
        traceback.print_exception(error)
    complain(failure.cause)


def _leave_soon(code: int) -> None:
    """See the process gone even if an environment's `close`, or a thread that it left behind, never ends."""

    def leave() -> None:
        complain(f"closing the environments took over {_LEAVE_S:.0f} s; leaving without")
        os._exit(code)

    timer = threading.Timer(_LEAVE_S, leave)
    timer.daemon = True
    # At a limit of threads or memory nobody watches over the end: how it ended is on record, and stays that.
    with suppress(RuntimeError):
        timer.start()


if __name__ == "__main__":
    process.outlive_full_disk()
    sys.exit(main())
