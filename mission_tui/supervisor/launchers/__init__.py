"""How an attempt is carried out: one small interface, so that another engine than this machine can carry runs.

With it lies what every engine needs: whose Python, folder and variables an attempt has, and from what it was launched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from mission_tui.fleet.events.processes import Pids
from mission_tui.records.runs.attempt import Handle, LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host.process_files import StopStatus

__all__ = ["NOTHING_SEEN", "Capabilities", "Job", "JobStatus", "Launcher", "Occupant", "Reached", "Stage"]

Stage = Literal["queued", "unseen", "starting", "running", "keeperless", "unverifiable", "gone"]
"""Where an attempt stands: in the engine's queue; not seen yet; with a keeper whose trainer is not known yet; training;
training without anybody who would end it and write down how; alive, though nothing proves that it is ours; over.
"""

Reached = Literal["keeper", "trainer", "nobody"]
"""Whom a stop or a kill reached. A keeper, or an engine, sees it through; for a trainer alone the caller has to."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a launcher can do, as data. Whoever acts on a run asks this, and never which launcher it is.

    `here`: its processes are of this machine, so what they take counts against it, can be read from /proc, and what
    they leave behind can be cleaned up. `freezes`: they can be stopped where they stand, and go on later.
    `asks_engine`: it has to be refreshed, because how runs stand is known elsewhere.
    """

    here: bool = False
    freezes: bool = False
    asks_engine: bool = True


class Job(Struct, frozen=True):
    """An attempt as a launcher is asked about it; `handle` is None where none was written, or it cannot be read."""

    dir: RunDir
    attempt: int
    nonce: str
    handle: Handle | None


class JobStatus(Struct, frozen=True, kw_only=True):
    """How an attempt stands, as its launcher saw it at one moment: plain data.

    `why` says what a queued one waits for, or what the engine knows of the end of one that is gone; `node` where it
    runs, empty for this machine. `begun`: it said once who it is; `rebooted`: its machine was restarted since.
    `unsure`: that its keeper is gone is not certain, or that an attempt which was given up is. `interrupted`: why the
    engine ended it, where it may go on in another job; `cancelled`: somebody ended its job there. `suspended`: why its
    engine has it stand still, and what helps. `pids` are processes of this machine.
    """

    stage: Stage
    why: str = ""
    node: str = ""
    begun: bool = False
    rebooted: bool = False
    unsure: bool = False
    interrupted: str = ""
    cancelled: bool = False
    suspended: str = ""
    pids: Pids = Pids()

    @property
    def lives(self) -> bool:
        """Whether a process or a job of it is there, as far as is known."""
        return self.stage in ("starting", "running", "keeperless")

    @property
    def can_be_ended(self) -> bool:
        """Whether there is anything to ask to end: processes, or a place in a queue."""
        return self.lives or self.stage == "queued"

    @property
    def trains(self) -> bool:
        """Whether its trainer is known."""
        return self.stage in ("running", "keeperless")


NOTHING_SEEN = JobStatus(stage="unseen")


class Occupant(Struct, frozen=True):
    """Who has a run although nobody of its attempt is known, in a sentence; `leftover`: it is what the run started."""

    why: str
    leftover: bool = False


class Launcher(Protocol):
    """Carries attempts out. A launcher may forget everything: with a handle, or without, it finds an attempt again.

    All but `refresh` are called on the event loop and answer from what is known there: a launcher whose engine is asked
    over a network answers with what the last `refresh` brought, and hands over in it what was submitted since.
    """

    name: str
    can: Capabilities

    def prepare(self) -> None:
        """Somebody looks, and may be about to launch: what makes that quicker may be done now."""

    def submit(self, run: RunDir, order: LaunchOrder, digest: str) -> Handle:
        """Have the written order carried out. Raises `MissionError` when it cannot be.

        `digest` is the SHA-256 of its document: whoever reads that for the start carries no other one out. It goes
        there by another way than the file system, where somebody may put another folder in the place of the runs root.
        """

    async def refresh(self, jobs: Sequence[Job]) -> None:
        """Ask the engine about all of `jobs` at once; once a beat, where `can.asks_engine`.

        Raises `MissionError` when it does not answer: what was known of the jobs then stays known.
        """

    def poll(self, job: Job) -> JobStatus:
        """How the attempt stands now; who is found is held until `release`.

        `gone` only when the files that it wrote last can be read here: how it ended is read from them.
        """

    def lives(self, job: Job) -> bool:
        """Whether somebody who was found at the last poll is still there. Asked at every beat, so cheap."""

    def watch(self, job: Job, gone: Callable[[], None]) -> None:
        """Call `gone` once when who was found is there no longer, if that can be noticed sooner than by looking."""

    def is_coming(self, job: Job) -> bool:
        """Whether a process or a job may still come for an attempt that was not seen yet."""

    def is_free(self, run: RunDir) -> bool:
        """Whether no process or job of any attempt owns the run."""

    def occupant(self, job: Job) -> Occupant:
        """Who owns the run, though nobody of the attempt is known. Not for every day: it may be slow."""

    def stop(self, job: Job) -> Reached:
        """Have the attempt save and end: SIGTERM, or what the engine has, with the grace of its order."""

    def kill(self, job: Job) -> Reached:
        """End the attempt at once, with everything that it started."""

    def describe(self, job: Job) -> str:
        """Who it is that does not end or cannot be told apart, as a person would look for it; empty when unknown."""

    def release(self, job: Job) -> None:
        """Hold nothing of the attempt any longer: it has ended, or this supervisor leaves it alone."""

    def secrets(self, job: Job, order: LaunchOrder) -> dict[str, str]:
        """The values that `order` withholds, as far as its living trainer can be asked for them."""

    def freeze(self, job: Job) -> int:
        """Stop every process that is not stopped; how many there were. Only where `can.freezes`, as the next three."""

    def thaw(self, job: Job) -> int:
        """Let every stopped process go on; how many there were."""

    def is_frozen(self, job: Job) -> bool | None:
        """Whether its trainer is stopped; None when that is not known."""

    def stop_status(self, job: Job, held: Mapping[int, int | None]) -> StopStatus:
        """How its processes stand; `held` are bytes of GPU memory by process. Slow, so asked in a thread."""
