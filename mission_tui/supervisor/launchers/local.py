"""Attempts on this machine: a keeper each, detached and found again by identity and lease; its processes are held,
signalled and frozen through their pidfds.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from mission_tui.errors import EX_RESUMABLE, DamagedError, MissionError, limit_met
from mission_tui.fleet.events.processes import Pids
from mission_tui.procfs import Stat, boot_id, marker_of, read_stat
from mission_tui.records.runs.attempt import Handle, Identity, LaunchOrder, read_identity
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host import process_files
from mission_tui.supervisor.host.children import start_child
from mission_tui.supervisor.host.identity import (
    Exits,
    Holder,
    Process,
    Verdict,
    Verification,
    holders_of,
    holds_another,
    holds_lease,
    is_marked_for,
    lease_is_free,
    open_process,
    verify,
    was_ordered_here,
)
from mission_tui.supervisor.host.process_files import hanging
from mission_tui.supervisor.launchers import Capabilities, Job, JobStatus, Occupant, Reached, Stage
from mission_tui.supervisor.launchers.order import keeper_words, recover_secrets
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


def _start_anew(run: RunDir, order: LaunchOrder, said: int, digest: str) -> Process:
    argv = [sys.executable, "-P", "-m", "mission_tui.keeper", *keeper_words(run, order, digest)]
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

    def start(self, run: RunDir, order: LaunchOrder, digest: str) -> Started:
        """Start the keeper of the written order; it is held. Raises `LeaseHeldError`, or `MissionError`."""
        if not self.is_free(run):
            raise LeaseHeldError(f"{run.id} is still owned by a process of an earlier attempt; `clean` shows which")
        try:
            whispered = _pass_secrets({name: order.env[name] for name in order.withheld if name in order.env})
            try:
                if self.preloaders is None:
                    return Started(_start_anew(run, order, whispered, digest))
                try:
                    return Started(self.preloaders.fork(run, order, whispered, digest), preloaded=True)
                except NotPreloadedError as reason:
                    return Started(_start_anew(run, order, whispered, digest), cold=str(reason))
            finally:
                os.close(whispered)
        except OSError as error:
            why = limit_met(error, starting=True) or error
            raise MissionError(f"the keeper of {run.id} could not be started: {why}") from error

    def is_free(self, run: RunDir) -> bool:
        """Whether the lease, which keeper and trainer of an attempt share, is free."""
        return lease_is_free(run)

    def holders(self, run: RunDir, nonce: str) -> list[Holder]:
        """Who of the visible processes holds the lease; it reads all of /proc."""
        return holders_of(run, nonce)

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
        if not was_ordered_here(run, attempt):
            return FoundProcesses(identity)
        keeper = _proven(verify(identity.keeper, identity.boot_id), lambda process: holds_lease(process.pid, run))
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
    proof = holds_lease(process.pid, run)
    if proof:
        return True
    if keeper is not None:
        stat = read_stat(process.pid)
        return stat is not None and stat.parent == keeper.pid and keeper.alive()
    marker = marker_of(process.pid)
    marked = marker is not None and is_marked_for(marker, run) and marker["MISSION_TUI_NONCE"] == identity.nonce
    if not marked or not lease_is_free(run):
        return proof
    # Its keeper is gone. One of another directory's, which was here before this one, is that one's.
    stat = read_stat(process.pid)
    return stat is not None and not any(holds_another(pid, run) for pid in (process.pid, stat.parent))


PATIENCE_S = 5.0
"""How long a keeper may take to say who it is before nobody is taken to be there."""


NOBODY = FoundProcesses(None)


class KeeperSource(Protocol):
    """Who starts keepers and finds them; `Keepers`, or a machine that is not there."""

    def prepare(self) -> None: ...
    def start(self, run: RunDir, order: LaunchOrder, digest: str) -> Started: ...
    def is_free(self, run: RunDir) -> bool: ...
    def holders(self, run: RunDir, nonce: str) -> list[Holder]: ...
    def is_coming(self, run: RunDir, attempt: int) -> bool: ...
    def find(self, run: RunDir, attempt: int) -> FoundProcesses: ...


class _AttemptProcesses(Struct, eq=False):
    """The processes of one attempt: both None while unknown or gone.

    Until `patient_until` (monotonic) the attempt may take its time to say who it is.
    """

    patient_until: float
    keeper: Process | None = None
    trainer: Process | None = None
    found: FoundProcesses = NOBODY

    def take(self, found: FoundProcesses) -> None:
        """Keep the processes that were found; one that was kept before stays, and its second pidfd is closed."""
        self.found = found
        if self.keeper is None:
            self.keeper = found.keeper
        elif found.keeper is not None:
            found.keeper.close()
        if self.trainer is None:
            self.trainer = found.trainer
        elif found.trainer is not None:
            found.trainer.close()

    def members(self) -> Iterator[tuple[Process, Stat]]:
        """Its living processes but the keeper."""
        if self.keeper is not None and self.keeper.alive():
            yield from process_files.descendants_of(self.keeper)
        elif self.trainer is not None:
            yield from process_files.with_descendants(self.trainer)


class LocalLauncher:
    """The embedded engine. The lease says who owns a run, identities who of an attempt lives."""

    name = "local"
    can = Capabilities(here=True, freezes=True, asks_engine=False)

    def __init__(self, keepers: KeeperSource | None = None) -> None:
        self._keepers = Keepers() if keepers is None else keepers
        self._exits = Exits()
        self._held: dict[str, _AttemptProcesses] = {}

    def submit(self, run: RunDir, order: LaunchOrder, digest: str) -> Handle:
        """Start the keeper of the written order and hold it. Raises `MissionError`."""
        started = self._keepers.start(run, order, digest)
        self._held[run.id] = _AttemptProcesses(time.monotonic() + PATIENCE_S, started.keeper)
        return Handle(
            launcher=self.name,
            id=str(started.keeper.pid),
            node=socket.gethostname(),
            submitted_t=time.time(),
            preloaded=started.preloaded,
            cold=started.cold,
        )

    def prepare(self) -> None:
        """Have a process ready that has loaded what a trainer is made of."""
        self._keepers.prepare()

    async def refresh(self, jobs: Sequence[Job]) -> None:
        """Nothing to refresh: `poll` asks the kernel each time."""

    def poll(self, job: Job) -> JobStatus:
        """Who of the attempt lives, by its identity and the lease; those are held."""
        held = self._held.setdefault(job.dir.id, _AttemptProcesses(time.monotonic() + PATIENCE_S))
        if held.keeper is None or held.trainer is None:
            held.take(self._keepers.find(job.dir, job.attempt))
        identity = held.found.identity
        return JobStatus(
            stage=_stage(held),
            begun=identity is not None,
            rebooted=identity is not None and identity.boot_id != boot_id(),
            unsure=held.found.keeper_verdict == "unverifiable",
            pids=Pids(
                held.keeper.pid if held.keeper is not None else None,
                held.trainer.pid if held.trainer is not None and held.trainer.alive() else None,
            ),
        )

    def lives(self, job: Job) -> bool:
        """Whether a held process of it has not exited."""
        held = self._held.get(job.dir.id)
        return held is not None and any(
            process is not None and process.alive() for process in (held.keeper, held.trainer)
        )

    def watch(self, job: Job, gone: Callable[[], None]) -> None:
        """By pidfd: its keeper, or its trainer where that has none."""
        held = self._held.get(job.dir.id)
        process = None if held is None else held.keeper or held.trainer
        if held is None or process is None:
            return

        def exited() -> None:
            if self._held.get(job.dir.id) is not held:
                return
            if held.keeper is process:
                held.keeper, held.patient_until = None, 0.0
            if held.trainer is process:
                held.trainer = None
            process.close()
            gone()

        self._exits.watch(process, exited)

    def is_coming(self, job: Job) -> bool:
        """Whether a keeper was started so lately that it may not have said who it is, or is about to take the lease."""
        held = self._held.get(job.dir.id)
        if held is not None and time.monotonic() <= held.patient_until:
            return True
        return self._keepers.is_free(job.dir) and self._keepers.is_coming(job.dir, job.attempt)

    def is_free(self, run: RunDir) -> bool:
        """Whether the lease, which keeper and trainer of an attempt share, is free."""
        return self._keepers.is_free(run)

    def occupant(self, job: Job) -> Occupant:
        """Who holds the lease; it reads all of /proc."""
        holders = self._keepers.holders(job.dir, job.nonce)
        return Occupant(_why_unseen(holders), any(holder.marked for holder in holders))

    def stop(self, job: Job) -> Reached:
        """SIGTERM to the keeper, which has the ladder, or to the trainer where that has none."""
        held = self._held.get(job.dir.id)
        if held is None or (process := held.keeper or held.trainer) is None:
            return "nobody"
        _signal(process, signal.SIGTERM)
        return "keeper" if process is held.keeper else "trainer"

    def kill(self, job: Job) -> Reached:
        """SIGQUIT to the keeper, which kills everything, or SIGKILL to the trainer's group where that has none."""
        held = self._held.get(job.dir.id)
        if held is not None and held.keeper is not None:
            _signal(held.keeper, signal.SIGQUIT)
            return "keeper"
        if held is not None and held.trainer is not None:
            held.trainer.send_to_group(signal.SIGKILL)
            return "trainer"
        return "nobody"

    def describe(self, job: Job) -> str:
        """The trainer that is held, with what it waits for in the kernel; else the numbers that are on record."""
        held = self._held.get(job.dir.id)
        if held is not None and held.trainer is not None:
            return hanging(held.trainer.pid)
        identity = None if held is None else held.found.identity
        return "" if identity is None else f"keeper {identity.keeper.pid}, trainer {identity.trainer.pid}"

    def release(self, job: Job) -> None:
        """Let go of the processes."""
        held = self._held.pop(job.dir.id, None)
        for process in () if held is None else (held.keeper, held.trainer):
            if process is not None:
                self._exits.forget(process)
                process.close()

    def secrets(self, job: Job, order: LaunchOrder) -> dict[str, str]:
        """From the environment that its trainer was started with: after a supervisor, only that has them."""
        held = self._held.get(job.dir.id)
        return {} if held is None or held.trainer is None else recover_secrets(order, held.trainer)

    def freeze(self, job: Job) -> int:
        """SIGSTOP to every process of the attempt but its keeper. One that forks meanwhile is met in the next round."""
        return process_files.stop_running(self._members(job))

    def thaw(self, job: Job) -> int:
        """SIGCONT to every stopped process of the attempt."""
        return process_files.continue_stopped(self._members(job))

    def is_frozen(self, job: Job) -> bool | None:
        """Whether its trainer is stopped by a signal."""
        held = self._held.get(job.dir.id)
        return None if held is None or held.trainer is None else process_files.is_stopped(held.trainer)

    def stop_status(self, job: Job, held: Mapping[int, int | None]) -> process_files.StopStatus:
        """How its processes stand; it reads all their memory maps."""
        return process_files.read_stop_status(self._members(job), held)

    def _members(self, job: Job) -> Iterator[tuple[Process, Stat]]:
        held = self._held.get(job.dir.id)
        return iter(()) if held is None else held.members()


def _stage(held: _AttemptProcesses) -> Stage:
    found = held.found
    if held.keeper is not None:
        return "starting" if held.trainer is None else "running"
    if held.trainer is not None:
        return "keeperless"
    if "unverifiable" in (found.keeper_verdict, found.trainer_verdict):
        return "unverifiable"
    return "unseen" if found.identity is None else "gone"


def _signal(process: Process, number: signal.Signals) -> None:
    process.send(number)
    process.send(signal.SIGCONT)  # a stopped process hears nothing until it goes on


def _why_unseen(holders: Sequence[Holder]) -> str:
    if not holders:
        return (
            "alive, but not visible from here: a process that cannot be seen, of another container perhaps, holds its "
            "lease; control comes back where it can be seen"
        )
    who = ", ".join(f"pid {holder.pid} ({holder.command})" for holder in holders[:3])
    who += f" and {len(holders) - 3} more" if len(holders) > 3 else ""
    if any(holder.marked for holder in holders):
        return f"its keeper and trainer are gone, but what they started holds its lease: {who}; `clean` shows it"
    return f"alive, but cannot be controlled from here: {who} holds its lease, and nothing proves that it is the run's"
