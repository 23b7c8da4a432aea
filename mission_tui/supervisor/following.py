"""Who reads the logs of a command that does not report: a process of its own, which outlives this one.

It writes the rows itself, so that a supervisor that dies loses none, and a log that takes long to read holds up nobody.
"""

from __future__ import annotations

import logging
import os
import sys
import time

from mission_tui.supervisor.children import start_child
from mission_tui.supervisor.run import LiveRun

__all__ = ["follow", "still_follows"]

LAST_LINES_S = 5.0
"""How long the end of an attempt waits for the last lines of its logs."""

log = logging.getLogger(__name__)


def follow(run: LiveRun) -> None:
    """See that the logs of a live command are followed, where its spec asks for that; once an attempt.

    One that an earlier supervisor started goes on: it has the file, and a second one leaves as soon as it sees that.
    """
    pattern = run.spec.run.follow if run.spec is not None else None
    if pattern is None or run.followed_until:
        return
    run.followed_until = float("inf")
    argv = [sys.executable, "-m", "mission_tui.trainer.follow", str(run.dir.path), str(run.attempt), pattern]

    def left(code: int) -> None:
        run.follower = None
        if code:
            log.info("%s: its logs are not followed any more: exit code %d", run.id, code)

    try:
        # What it cannot read is said where the command's own words are.
        words = os.open(run.dir.attempt(run.attempt).output, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            run.follower = start_child(argv, left, cwd="/", stderr=words, detached=True)
        finally:
            os.close(words)
        os.setpriority(os.PRIO_PROCESS, run.follower.pid, 10)
    except OSError as error:
        log.warning("%s: its logs cannot be followed: %s", run.id, error)


def still_follows(run: LiveRun) -> bool:
    """Whether the last lines of an attempt that has ended are still being read; false after a few seconds at most."""
    follow(run)  # it may have been over before anybody looked
    if run.follower is None:
        return False
    run.followed_until = min(run.followed_until, time.monotonic() + LAST_LINES_S)
    return time.monotonic() < run.followed_until
