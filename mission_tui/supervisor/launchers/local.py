"""Attempts on this machine: a keeper each, whose processes are held, signalled and frozen through their pidfds."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from mission_tui.fleet.events.processes import Pids
from mission_tui.procfs import Stat, boot_id
from mission_tui.records.runs.attempt import Handle, LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host import process_files
from mission_tui.supervisor.host.identity import Exits, Process
from mission_tui.supervisor.host.lease import Holder
from mission_tui.supervisor.host.process_files import hanging
from mission_tui.supervisor.launchers import Capabilities, Job, Occupant, Reached, Sighting, Stage
from mission_tui.supervisor.launchers.caller import recover_secrets
from mission_tui.supervisor.launchers.keepers import FoundProcesses, Keepers, Started

PATIENCE_S = 5.0
"""How long a keeper may take to say who it is before nobody is taken to be there."""


NOBODY = FoundProcesses(None)


class KeeperSource(Protocol):
    """Who starts keepers and finds them; `Keepers`, or a machine that is not there."""

    def prepare(self) -> None: ...
    def start(self, run: RunDir, order: LaunchOrder) -> Started: ...
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

    def submit(self, run: RunDir, order: LaunchOrder) -> Handle:
        """Start the keeper of the written order and hold it. Raises `MissionError`."""
        started = self._keepers.start(run, order)
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
        """Nothing to refresh: `look` asks the kernel each time."""

    def look(self, job: Job) -> Sighting:
        """Who of the attempt lives, by its identity and the lease; those are held."""
        held = self._held.setdefault(job.dir.id, _AttemptProcesses(time.monotonic() + PATIENCE_S))
        if held.keeper is None or held.trainer is None:
            held.take(self._keepers.find(job.dir, job.attempt))
        identity = held.found.identity
        return Sighting(
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
    return f"alive, but not to be controlled from here: {who} holds its lease, and nothing proves that it is its own"
