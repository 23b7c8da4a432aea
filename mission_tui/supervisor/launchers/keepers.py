"""Keepers as processes of this machine: one detached for each attempt, found again by identity and lease."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from mission_tui.errors import EX_RESUMABLE, DamagedError, MissionError
from mission_tui.procfs import read_stat
from mission_tui.records.runs.attempt import Identity, LaunchOrder, read_identity
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host import lease
from mission_tui.supervisor.host.children import start_child
from mission_tui.supervisor.host.identity import Process, Verdict, Verification, open_process, verify
from mission_tui.supervisor.launchers.preloaded import NotPreloadedError, Preloaders


class FoundProcesses(Struct, frozen=True):
    """Who of an attempt lives: held processes, their verdicts, and what was recorded when they started."""

    identity: Identity | None
    keeper: Process | None = None
    trainer: Process | None = None
    keeper_verdict: Verdict = "stranger"
    trainer_verdict: Verdict = "stranger"


class Started(Struct, frozen=True):
    """A keeper that was started, and on which road; `cold`: why it was not forked off a preloader."""

    keeper: Process
    preloaded: bool = False
    cold: str = ""


class LeaseHeldError(MissionError):
    """A process of an earlier attempt still owns the run."""

    exit_code = EX_RESUMABLE


def _pass_secrets(secrets: Mapping[str, str]) -> int:
    """A descriptor to read `secrets` from, once and by the keeper alone: in memory, complete before it is started."""
    descriptor = os.memfd_create("secrets", os.MFD_CLOEXEC)
    os.write(descriptor, msgspec.json.encode(dict(secrets)))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _start_anew(run: RunDir, order: LaunchOrder, said: int) -> Process:
    argv = [sys.executable, "-P", "-m", "mission_tui.keeper", str(run.path), str(order.attempt)]
    child = start_child(argv, lambda _code: None, cwd="/", stdin=said, detached=True)
    keeper = open_process(child.pid)
    assert keeper is not None
    return keeper


class Keepers:
    """Starts them, in a session of their own each, and finds those that an earlier supervisor started."""

    def __init__(self, preloaders: Preloaders | None = None) -> None:
        """Without `preloaders` each is started anew."""
        self.preloaders = preloaders

    def prepare(self) -> None:
        """Have a preloader ready: a launch may come soon."""
        if self.preloaders is not None:
            self.preloaders.prepare_here()

    def start(self, run: RunDir, order: LaunchOrder) -> Started:
        """Start the keeper of the written order; it is held. Raises `LeaseHeldError`, or `MissionError`."""
        if not self.is_free(run):
            raise LeaseHeldError(f"{run.id} is still owned by a process of an earlier attempt; `clean` shows which")
        try:
            whispered = _pass_secrets({name: order.env[name] for name in order.withheld if name in order.env})
            try:
                if self.preloaders is None:
                    return Started(_start_anew(run, order, whispered))
                try:
                    return Started(self.preloaders.fork(run, order, whispered), preloaded=True)
                except NotPreloadedError as reason:
                    return Started(_start_anew(run, order, whispered), cold=str(reason))
            finally:
                os.close(whispered)
        except OSError as error:
            raise MissionError(f"the keeper of {run.id} could not be started: {error}") from error

    def is_free(self, run: RunDir) -> bool:
        """Whether the lease, which keeper and trainer of an attempt share, is free."""
        return lease.is_free(run)

    def holders(self, run: RunDir, nonce: str) -> list[lease.Holder]:
        """Who of the visible processes holds the lease; it reads all of /proc."""
        return lease.holders_of(run, nonce)

    def is_coming(self, run: RunDir, attempt: int) -> bool:
        """Whether a process names `attempt` as a keeper does before it has the lease. Nobody is signalled for that."""
        words = b"\0" + os.fsencode(run.path) + b"\0" + str(attempt).encode() + b"\0"
        for command in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if words in command.read_bytes():
                    return True
        return False

    def find(self, run: RunDir, attempt: int) -> FoundProcesses:
        """Who of `attempt` lives, by `identity.json` and the lease; a damaged identity identifies no process.

        The caller closes the held processes.
        """
        try:
            identity = read_identity(run.attempt(attempt).identity)
        except (DamagedError, OSError):
            identity = None
        if identity is None:
            return FoundProcesses(None)
        if not lease.was_ordered_here(run, attempt):
            return FoundProcesses(identity)
        keeper = _proven(verify(identity.keeper, identity.boot_id), lambda process: lease.holds(process.pid, run))
        trainer = _proven(
            verify(identity.trainer, identity.boot_id),
            lambda process: _is_trainer(process, run, identity, keeper.process),
        )
        return FoundProcesses(identity, keeper.process, trainer.process, keeper.verdict, trainer.verdict)


def _proven(seen: Verification, proves: Callable[[Process], bool | None]) -> Verification:
    """`seen`, if the lease says so too of the process that is held; it is let go of otherwise."""
    if seen.process is None:
        return seen
    proof = proves(seen.process)
    # What was read is of this process only if its number has not been given away meanwhile.
    if proof and seen.process.alive():
        return seen
    seen.process.close()
    return Verification("unverifiable" if proof is None else "stranger")


def _is_trainer(process: Process, run: RunDir, identity: Identity, keeper: Process | None) -> bool | None:
    """Whether it holds the lease; a command may have closed it: then, whether the proven keeper is its parent, or,
    where nobody holds the lease any more, whether it was started with this attempt's variables.
    """
    proof = lease.holds(process.pid, run)
    if proof:
        return True
    if keeper is not None:
        stat = read_stat(process.pid)
        return stat is not None and stat.parent == keeper.pid and keeper.alive()
    marker = lease.marker_of(process.pid)
    marked = marker is not None and lease.is_marked_for(marker, run) and marker["MISSION_TUI_NONCE"] == identity.nonce
    if not marked or not lease.is_free(run):
        return proof
    # Its keeper is gone. One of another directory's, which was here before this one, is that one's.
    stat = read_stat(process.pid)
    return stat is not None and not any(lease.holds_another(pid, run) for pid in (process.pid, stat.parent))
