"""Who writes the rows of a command, of what its script reports or of its logs: a process that outlives this one.

It writes the rows itself, so that a supervisor that dies loses none, and a log that takes long to read holds up nobody.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable

from mission_tui.errors import EX_RESUMABLE
from mission_tui.plain_files import open_to_append
from mission_tui.run_module import module_words
from mission_tui.supervisor.host.children import start_child
from mission_tui.supervisor.runs.live_run import LiveRun

LAST_LINES_S = 5.0
"""How long the end of an attempt waits for the last lines of its logs."""

log = logging.getLogger(__name__)


FOLLOWING = "following"
Failed = Callable[[str, str], None]
"""Hears which duty failed, and why."""


def follow(run: LiveRun, failed: Failed = lambda _duty, _why: None) -> None:
    """See that a live command which reports, or whose spec asks for it, is followed; once an attempt.

    A follower that an earlier supervisor started goes on: a second one leaves as soon as it sees that.
    """
    if run.followed_until or (run.spec is not None and run.spec.run.command is None):
        return
    pattern = run.spec.run.follow if run.spec is not None else None
    files = run.dir.attempt(run.attempt)
    if pattern is None and not files.reported.exists():
        return
    run.begin_following()
    argv = [*module_words("mission_tui.trainer.following.follow"), str(run.dir.path), str(run.attempt)]

    def left(code: int) -> None:
        run.follower_left(elsewhere=code == EX_RESUMABLE)
        if code not in (0, EX_RESUMABLE):
            log.warning("%s: it is not followed any more: exit code %d", run.id, code)
            how = f"exit code {code}" if code >= 0 else f"signal {-code}"
            failed(FOLLOWING, f"who reads its rows ended with {how}: no more of them are seen; its output says why")

    try:
        # What it cannot read is said where the command's own words are.
        words = open_to_append(files.output)
        try:
            argv += [pattern] if pattern is not None else []
            follower = start_child(argv, left, cwd="/", stderr=words, detached=True)
            run.followed_by(follower)
        finally:
            os.close(words)
        os.setpriority(os.PRIO_PROCESS, follower.pid, 10)
    except OSError as error:
        log.warning("%s: it cannot be followed: %s", run.id, error)
        failed(FOLLOWING, f"nobody reads its rows: {error}")


def still_follows(run: LiveRun, failed: Failed = lambda _duty, _why: None) -> bool:
    """Whether the last lines of an attempt that has ended are still being read; false after a few seconds at most."""
    if run.followed_elsewhere:
        # That one may be at the last lines now: another one waits for it, and reads what it left.
        run.follow_again()
    follow(run, failed)  # it may have been over before anybody looked
    if run.follower is None:
        return False
    run.follow_no_longer_than(time.monotonic() + LAST_LINES_S)
    return time.monotonic() < run.followed_until
