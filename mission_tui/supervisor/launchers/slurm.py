"""Attempts as jobs of Slurm: one job an attempt, submitted by `sbatch`, all asked about by one `squeue`.

A job is never requeued by Slurm: what goes on is a further attempt, in a job of its own, so that rows, checkpoints and
the fence tell one from the other. Nothing here waits for a command: `refresh` calls them beside the loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mission_tui.errors import DamagedError, MissionError
from mission_tui.fleet.text import clean
from mission_tui.plain_files import read_plain
from mission_tui.records.files.atomic import StorageError, write_json
from mission_tui.records.runs.attempt import ExitRecord, Handle, LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.spec_file import read_attempt_spec
from mission_tui.supervisor.host.process_tree import StopStatus
from mission_tui.supervisor.launchers import NOTHING_SEEN, Capabilities, Job, Occupant, Reached, Sighting
from mission_tui.supervisor.launchers.slurm_commands import (
    SLURM_LOG,
    SlurmError,
    SlurmJob,
    call,
    job_environ,
    job_name,
    read_jobs,
    sbatch_words,
    script,
    submitted_number,
    why_it_waits,
)

POLL_S = 10.0
SOON_POLL_S = 1.0
SOON_S = 30.0
"""For so long after something was submitted or asked, Slurm is asked every second."""

LAG_S = 30.0
"""How long files of a node may take to be seen here after its job has ended."""

STATE_S = 15.0
"""How long a job may be called running after its keeper has left."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Known:
    """What is known of one attempt. `order` waits to be submitted; `wish` is what Slurm was not told yet."""

    run: RunDir
    attempt: int
    number: str = ""
    order: LaunchOrder | None = None
    job: SlurmJob | None = None
    wish: Literal["stop", "kill"] | None = None
    told_at: float | None = None
    over_at: float | None = None
    missed: int = 0
    refused: str = ""


class SlurmLauncher:
    """What a supervisor has of a cluster."""

    name = "slurm"
    can = Capabilities()

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._polled_at = self._soon_until = float("-inf")

    def prepare(self) -> None:
        """Slurm is as quick without."""

    def submit(self, run: RunDir, order: LaunchOrder) -> Handle:
        """Have the order handed over in the next `refresh`; its number follows."""
        self._known[run.id] = _Known(run, order.attempt, order=order)
        self._hurry()
        return Handle(launcher=self.name, id="", submitted_t=time.time())

    async def refresh(self, jobs: Sequence[Job]) -> None:
        """Submit what waits, say what was asked, and ask for the state of all. Raises `SlurmError`."""
        # Of whom nothing is known here, nobody has looked yet, or nobody wants to know any more.
        await asyncio.gather(*(self._hand_over(known) for known in list(self._known.values()) if known.order))
        now = time.monotonic()
        wishes = [known for known in self._known.values() if known.wish]
        if not wishes and now < self._polled_at + (SOON_POLL_S if now < self._soon_until else POLL_S):
            return
        self._polled_at = now
        found = read_jobs(
            await asyncio.to_thread(call, ("squeue", "--json", "--states=all", "--user", str(os.getuid())))
        )
        for known in list(self._known.values()):
            self._take(known, found.get((job_name(known.run, known.attempt), str(known.run.path))))
        await asyncio.gather(*(self._carry_out(known) for known in wishes))

    def look(self, job: Job) -> Sighting:
        """By the files of the attempt, and by what the last `refresh` brought."""
        known = self._of(job)
        files = job.dir.attempt(job.attempt)
        begun = files.identity.exists()
        found = known.job
        if files.exit.exists():
            if found is None or not found.runs or self._waited_for_state(known):
                return self._gone(known, begun=begun)
            # Why it ended is Slurm's to say: a time limit, a lost node, or nothing.
            return Sighting(stage="running", node=found.node, begun=begun)
        if known.order is not None:
            return Sighting(stage="queued", why="waits: it is being handed to Slurm" + known.refused)
        if found is None:
            return self._gone(known, begun=begun) if self._is_lost(known) else NOTHING_SEEN
        if found.waits:
            return Sighting(stage="queued", why=why_it_waits(found))
        if found.runs:
            return Sighting(stage="running" if begun else "starting", node=found.node, begun=begun)
        if not found.interrupted and known.over_at is not None and time.monotonic() - known.over_at < LAG_S and begun:
            # How it ended is on its way.
            return NOTHING_SEEN
        return self._gone(known, begun=begun)

    def lives(self, job: Job) -> bool:
        """Whether its job has not ended."""
        return self.look(job).lives

    def watch(self, job: Job, gone: Callable[[], None]) -> None:
        """Slurm calls nobody."""

    def is_coming(self, job: Job) -> bool:
        """Whether it is, or may be, in Slurm's hands: one without a number is looked for by its name first."""
        known = self._of(job)
        if known.order is not None or known.job is not None:
            return True
        return job.handle is not None and known.missed < 2

    def is_free(self, run: RunDir) -> bool:
        """Whether no job of the run is in a queue or on a node. No lock of a node keeps anybody out: see the fence."""
        known = self._known.get(run.id)
        return known is None or (known.order is None and (known.job is None or not (known.job.waits or known.job.runs)))

    def occupant(self, job: Job) -> Occupant:
        """Its job."""
        return Occupant(f"alive as {self.describe(job) or 'a job of Slurm'}")

    def stop(self, job: Job) -> Reached:
        """SIGTERM to the keeper on the node, which has the trainer save; a job that waits is taken from the queue."""
        return self._ask(job, "stop")

    def kill(self, job: Job) -> Reached:
        """SIGQUIT to the keeper, which leaves nothing of the attempt; Slurm ends the job if that does not."""
        return self._ask(job, "kill")

    def describe(self, job: Job) -> str:
        """The job's number and node."""
        known = self._of(job)
        node = known.job.node if known.job is not None else ""
        return f"Slurm job {known.number}{f' on {node}' if node else ''}" if known.number else ""

    def release(self, job: Job) -> None:
        """Remember nothing of it."""
        self._known.pop(job.dir.id, None)

    def secrets(self, job: Job, order: LaunchOrder) -> dict[str, str]:
        """Only Slurm and the node have them."""
        return {}

    def freeze(self, job: Job) -> int:
        raise NotImplementedError("nothing is frozen on a node")

    def thaw(self, job: Job) -> int:
        raise NotImplementedError("nothing is frozen on a node")

    def is_frozen(self, job: Job) -> bool | None:
        raise NotImplementedError("nothing is frozen on a node")

    def stop_status(self, job: Job, held: Mapping[int, int | None]) -> StopStatus:
        raise NotImplementedError("nothing is frozen on a node")

    def _of(self, job: Job) -> _Known:
        known = self._known.get(job.dir.id)
        if known is None or known.attempt != job.attempt:
            number = "" if job.handle is None else job.handle.id
            known = self._known[job.dir.id] = _Known(job.dir, job.attempt, number)
            self._hurry()
        return known

    def _hurry(self) -> None:
        self._soon_until = time.monotonic() + SOON_S
        self._polled_at = float("-inf")

    def _waited_for_state(self, known: _Known) -> bool:
        """Whether Slurm had its time to say that the job of a keeper which has left is over."""
        if known.over_at is None:
            known.over_at = time.monotonic()
            self._hurry()
        return time.monotonic() - known.over_at > STATE_S

    def _is_lost(self, known: _Known) -> bool:
        """Whether a job that had a number was not in two lists in a row."""
        return bool(known.number) and known.missed >= 2

    def _forgotten(self, known: _Known) -> str:
        return f"Slurm does not know its job {known.number} any more, and how it ended is not on record"

    def _gone(self, known: _Known, *, begun: bool) -> Sighting:
        found = known.job
        if found is None:
            return Sighting(stage="gone", begun=begun, why=self._forgotten(known) if known.number else "")
        why = found.interrupted
        if not why and found.state not in ("COMPLETED", "RUNNING", "COMPLETING"):
            why = f"Slurm ended its job {found.number}: {found.state}"
            why += f" ({found.reason})" if found.reason not in ("", "None", "NonZeroExitCode") else ""
            said = "" if begun else _last_words(known.run.attempt(known.attempt).path / SLURM_LOG)
            why += f"; {said}" if said else ""
        return Sighting(stage="gone", begun=begun, node=found.node, why=why, interrupted=found.interrupted)

    def _take(self, known: _Known, found: SlurmJob | None) -> None:
        """Take in that the list has `found` for the attempt."""
        if found is None:
            # One that is not submitted yet is in no list.
            known.missed += known.order is None
            if known.missed >= 2 and known.number:
                known.job = None
            return
        known.missed = 0
        if known.number != found.number:
            self._accepted(known, found.number)
        before, known.job = known.job, found
        if not (found.waits or found.runs) and known.over_at is None:
            known.over_at = time.monotonic()
        if before is None or before.state != found.state:
            log.info("%s: job %s is %s %s", known.run.id, found.number, found.state, found.node)

    async def _hand_over(self, known: _Known) -> None:
        order = known.order
        if order is None:
            return
        if known.refused and not await self._was_lost(known):
            return
        try:
            spec = read_attempt_spec(known.run, order.attempt)
            words, environ = sbatch_words(known.run, order, spec), job_environ(order, os.environ)
            answer = await asyncio.to_thread(call, words, script(known.run, order), environ)
            self._accepted(known, submitted_number(answer))
        except SlurmError as error:
            if error.sent:
                # It may be in the queue all the same: the list of jobs tells.
                known.refused = f" ({error})"
            else:
                self._refuse(known, str(error))
        except (MissionError, DamagedError, OSError) as error:
            self._refuse(known, str(error))

    async def _was_lost(self, known: _Known) -> bool:
        """Of a submission without an answer, whether it never arrived; else it is taken up."""
        try:
            found = read_jobs(await asyncio.to_thread(call, ("squeue", "--json", "--states=all")))
        except SlurmError:
            return False
        job = found.get((job_name(known.run, known.attempt), str(known.run.path)))
        if job is None:
            self._refuse(known, f"Slurm did not take the job{known.refused}")
        else:
            self._take(known, job)
        return False

    def _accepted(self, known: _Known, number: str) -> None:
        known.number, known.order, known.refused = number, None, ""
        self._hurry()
        log.info("%s: attempt %d is job %s", known.run.id, known.attempt, number)
        path = known.run.attempt(known.attempt).handle
        try:
            write_json(path, Handle(launcher=self.name, id=number, submitted_t=time.time()))
        except StorageError as error:
            log.warning("%s: the number of its job is not on record: %s", known.run.id, error)

    def _refuse(self, known: _Known, why: str) -> None:
        """Nobody else will write how the attempt ended. A job that comes all the same finds this and does nothing."""
        known.order = None
        record = ExitRecord(attempt=known.attempt, ended_t=time.time(), start_error=f"Slurm did not start it: {why}")
        try:
            write_json(known.run.attempt(known.attempt).exit, record)
        except StorageError as error:
            log.warning("%s: %s, and that could not be written: %s", known.run.id, why, error)

    def _ask(self, job: Job, what: Literal["stop", "kill"]) -> Reached:
        known = self._of(job)
        if known.order is not None and not known.refused:
            # `refresh` may be handing it over now: Slurm is told as soon as there is a number.
            known.wish = what
            return "keeper"
        if not known.number and known.job is None:
            return "nobody"
        known.wish, known.told_at = what, None
        self._hurry()
        return "keeper"

    async def _carry_out(self, known: _Known) -> None:
        """Tell Slurm what was asked; again until it was heard, and with more force where a kill changes nothing."""
        found = known.job
        if known.wish is None or found is None or not known.number:
            return
        if not (found.waits or found.runs):
            known.wish = None
            return
        number = known.number
        if found.waits:
            words = ["scancel", number]
        elif known.told_at is None:
            words = ["scancel", "--batch", f"--signal={'TERM' if known.wish == 'stop' else 'QUIT'}", number]
        elif known.wish == "kill" and time.monotonic() - known.told_at > LAG_S:
            words = ["scancel", number]
        else:
            return
        with suppress(SlurmError):
            await asyncio.to_thread(call, words)
            known.told_at = time.monotonic() if known.told_at is None else known.told_at
            if known.wish == "stop":
                known.wish = None


def _last_words(path: Path) -> str:
    """The last line of what a job printed before it was a keeper."""
    try:
        lines = read_plain(path, 1 << 20).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((clean(line, 200) for line in reversed(lines) if line.strip()), "")
