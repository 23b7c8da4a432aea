"""`python -m mission_tui.keeper RUN_DIR ATTEMPT`: start the trainer of one attempt, stay with it, record how it ended.

Writes `identity.json` as soon as the trainer runs and `exit.json` when nothing of it is left. The lease is let go by
exiting only, so whoever finds it free after a keeper that lived finds the exit record too.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mission_tui.errors import EX_FAILED, EX_RESUMABLE, limit_met
from mission_tui.fence import Fence, describe_overtaken
from mission_tui.keeper import child, files
from mission_tui.keeper.ladder import Ladder, OomWatch, become_subreaper, block_signals
from mission_tui.plain_files import open_to_lock
from mission_tui.procfs import call_process, read_stat, wait_channel


def main(start: Callable[[child.Order, int, int], int] = child.start_trainer) -> int:
    """Keep the attempt named on the command line; the exit code is 0, 75 if it may not start now, or is to go on in
    another job, 1 if it cannot.

    A word that begins with `--sealed=` says which order is meant: one that says anything else is not carried out.

    A further one is there where an engine started this process: beginnings of the names of variables that it set for
    its job, between commas, which the trainer is given too. Then the attempt's file `signal` is as good as a signal.

    `start` is how its trainer is started.
    """
    run_dir, attempt = Path(sys.argv[1]).absolute(), int(sys.argv[2])
    folder = run_dir / "attempts" / str(attempt)
    digest = next((word.removeprefix(child.SEALED) for word in sys.argv[3:] if word.startswith(child.SEALED)), None)
    passed = next((word for word in sys.argv[3:] if not word.startswith(child.SEALED)), None)
    call_process("keeper", run_dir.name, str(run_dir), str(attempt), brief="keep")
    if (folder / "identity.json").exists() or (folder / "exit.json").exists():
        return EX_RESUMABLE
    mailbox = None if passed is None else folder / "signal"
    if mailbox is not None and mailbox.exists():
        # It was to end before it began, and nobody waits for it any more.
        return EX_RESUMABLE
    block_signals()
    with suppress(PermissionError):
        os.setsid()
    try:
        become_subreaper()
        order = child.read_order(folder / "launch.json", run_dir, digest)
        fence = Fence(run_dir, attempt, order.nonce)
        if (newer := fence.overtaken_by()) is not None:
            raise child.OvertakenError(describe_overtaken(attempt, newer))
        if passed is None:
            lease = child.take_lease(run_dir / "lease")
        else:
            # On a node no lock is relied on: that of a node which is gone may be kept for minutes. The fence decides.
            lease = open_to_lock(run_dir / "lease")
            order = order._replace(env={**order.env, **child.engine_variables(os.environ, passed)})
        output = files.Output(folder / "output.log", order.output_cap_bytes)
        # What goes wrong in the keeper itself belongs where the trainer's last words are.
        os.dup2(output.descriptor, 2)
        trainer = start(order, lease, output.descriptor)
    except child.StartError as error:
        files.write_with_retries(folder / "exit.json", files.exit_record(attempt, start_error=str(error)))
        return error.exit_code
    except OSError as error:
        why = f"cannot start the trainer: {limit_met(error, starting=True) or error}"
        files.write_with_retries(folder / "exit.json", files.exit_record(attempt, start_error=why))
        return EX_FAILED
    return _supervise_trainer(run_dir, attempt, order, output, trainer, fence, mailbox)


def _supervise_trainer(
    run_dir: Path, attempt: int, order: child.Order, output: files.Output, pid: int, fence: Fence, mailbox: Path | None
) -> int:
    """Record who runs, stay until nothing of the trainer is left, record how it ended. A newer attempt ends it at once,
    and the word in the file `mailbox` does what a signal would.
    """
    folder = run_dir / "attempts" / str(attempt)
    trainer, keeper = read_stat(pid), read_stat(os.getpid())
    assert trainer is not None  # our child and not yet waited for
    assert keeper is not None
    killed = OomWatch()
    ladder = Ladder(trainer, order.grace_s, lambda: _unsaved_bytes(run_dir / "checkpoints"))
    start_error = None
    try:
        files.write_json(folder / "identity.json", files.identity_record(attempt, order.nonce, keeper, trainer))
    except OSError as error:
        # A trainer that nobody can identify later must not run.
        start_error = f"cannot write {folder / 'identity.json'}: {error.strerror}; the trainer was ended"
        ladder.kill()
    files.reserve_space(folder / "exit.json")
    overtaken = False

    def each_tick() -> None:
        nonlocal overtaken
        output.trim()
        killed.look(time.monotonic())
        if fence.due and not overtaken and fence.overtaken_by() is not None:
            overtaken = True
            ladder.kill()
        if mailbox is not None and (word := files.signal_in(mailbox)) is not None:
            ladder.obey(word)

    ladder.watch(each_tick)
    ladder.sweep()
    output.trim()
    unlinked = [] if ladder.left else files.remove_shared_memory(folder / "shared-memory")
    status = None if start_error or ladder.status is None else os.waitstatus_to_exitcode(ladder.status)
    by_itself = ladder.asked is None and status == -signal.SIGKILL
    record = files.exit_record(
        attempt,
        code=status if status is not None and status >= 0 else None,
        signal=-status if status is not None and status < 0 else None,
        asked=None if start_error else ladder.asked,
        escalated=ladder.escalated,
        swept=ladder.swept,
        left=[{"pid": left.pid, "state": left.state, "wchan": wait_channel(left.pid)} for left in ladder.left],
        unlinked=unlinked,
        oom_killed=by_itself and killed.lately(),
        start_error=start_error,
        peak_rss_bytes=None if start_error else ladder.peak_rss_bytes,
        last_output=output.tail().decode("utf-8", "replace"),
    )
    written = files.write_with_retries(folder / "exit.json", record)
    if overtaken or ladder.asked == "limit" or fence.overtaken_by() is not None:
        return EX_RESUMABLE
    return 0 if written and not start_error else EX_FAILED


def _unsaved_bytes(checkpoints: Path) -> int:
    """Bytes in checkpoint directories that do not have their name yet."""
    total = 0
    for member in checkpoints.glob(".tmp-*/*"):
        with suppress(OSError):
            total += member.stat().st_size
    return total


if __name__ == "__main__":
    sys.exit(main())
