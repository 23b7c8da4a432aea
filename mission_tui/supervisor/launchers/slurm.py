"""Attempts as jobs of Slurm: one job an attempt, submitted by `sbatch`, all asked about by one `squeue`.

Nothing here waits for a command: `refresh` calls them beside the loop.

With `slurm.pack` several attempts share a job, for clusters whose administrator has set no shares of a GPU. Who asks
for the same and comes within a few seconds shares one; nobody joins one that was submitted. A folder below the
supervisor's own names the attempts of a job, so that any supervisor and the node know them. Which member is to end is a
word in its `signal` file; Slurm is told only once no member is left.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from mission_tui.errors import DamagedError, MissionError
from mission_tui.fleet.events.processes import FOR_COMPANY
from mission_tui.fleet.specs.spec import Spec
from mission_tui.plain_files import make_folder, read_plain, remove_tree
from mission_tui.records.atomic import read_json, storing, write_json
from mission_tui.records.runs.attempt import Handle, LaunchOrder, read_attempt_spec, read_exit
from mission_tui.records.runs.layout import RunDir, supervisor_dir
from mission_tui.supervisor.launchers import Job, JobStatus, Reached
from mission_tui.supervisor.launchers.engine import (
    LAG_S,
    POLL_S,
    SECRETS,
    SIGNAL_WORDS,
    EngineLauncher,
    Known,
    half_of_secrets,
    unless_seen,
)
from mission_tui.supervisor.launchers.order import SEALED
from mission_tui.supervisor.launchers.slurm_commands import (
    MORE_MEMORY,
    PASSED,
    SLURM_LOG,
    SUSPENDED,
    Cluster,
    SlurmError,
    SlurmJob,
    asked_words,
    call,
    job_environ,
    job_name,
    job_numbers,
    kept_environ,
    read_cluster,
    read_jobs,
    sbatch_words,
    script,
    submitted_number,
    words_of_job,
)

__all__ = [
    "Pack",
    "SlurmKnown",
    "due_packs",
    "everybody_is_over",
    "forget_pack",
    "pack_environ",
    "pack_folder",
    "pack_script",
    "pack_words",
    "waits_for_company",
    "write_pack",
]

GATHER_S = 3.0
"""How long a run waits for others to share its job."""

PACKS = "slurm"


class PackedAttempt(Struct, frozen=True, kw_only=True):
    """A member of a job: the run's directory, and its attempt."""

    run_dir: str
    attempt: int

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or was to end before it had begun."""
        folder = RunDir(Path(self.run_dir)).attempt(self.attempt)
        return folder.exit.exists() or (folder.signal.exists() and not folder.identity.exists())


class Pack(Struct, frozen=True, kw_only=True):
    """`pack.json`: the attempts that share a job."""

    attempts: tuple[PackedAttempt, ...]


class SlurmKnown(Known[SlurmJob]):
    """`spec` until it is submitted, `since` when that was asked. `pack` is the folder of the job that it shares.
    `put_off`: why it is submitted again at `again_at`. `followed`: it was submitted by this supervisor or seen in
    Slurm's list, which would have said how it ended.
    """

    spec: Spec | None = None
    since: float = 0.0
    pack: str = ""
    put_off: str = ""
    again_at: float = float("-inf")
    followed: bool = False

    def is_due(self, now: float) -> bool:
        """Whether it is to be submitted: nobody has tried, or what was tried is to be tried again."""
        return self.order is not None and not self.refused and not self.sending and now >= self.again_at

    @property
    def key(self) -> tuple[str, str]:
        """Name and folder of its job."""
        if not self.pack:
            return job_name(self.run, self.attempt), str(self.run.path)
        return f"{self.pack}+", str(pack_folder(self.run.path.parent, self.pack))


def pack_folder(root: Path, name: str) -> Path:
    """Where a job that carries several runs has its own files."""
    return supervisor_dir(root) / PACKS / name


def due_packs(waiting: Sequence[SlurmKnown], now: float) -> Iterator[list[SlurmKnown]]:
    """Who of `waiting` is to be submitted now, those together that share a job: it is full, or nobody came for it."""
    alike: dict[object, list[SlurmKnown]] = {}
    for known in waiting:
        if known.spec is not None:
            slurm = known.spec.slurm
            alike.setdefault((slurm.pack, slurm.warn_s, *asked_words(known.spec)), []).append(known)
    for members in alike.values():
        assert members[0].spec is not None
        most = members[0].spec.slurm.pack
        for first in range(0, len(members), most):
            together = members[first : first + most]
            if len(together) == most or now - together[0].since >= GATHER_S:
                yield together


def write_pack(root: Path, members: Sequence[SlurmKnown]) -> str:
    """Name who shares a job, in a folder of its own; its name. Raises `StorageError`."""
    name = job_name(members[0].run, members[0].attempt)
    folder = pack_folder(root, name)
    with storing(folder, "write"):
        make_folder(folder.parent)
        make_folder(folder)
    attempts = (PackedAttempt(run_dir=str(known.run.path), attempt=known.attempt) for known in members)
    write_json(folder / "pack.json", Pack(attempts=tuple(attempts)))
    return name


def everybody_is_over(root: Path, name: str) -> bool:
    """Whether no member of a job is left; False where that cannot be told."""
    with suppress(DamagedError, OSError):
        pack = read_json(pack_folder(root, name) / "pack.json", Pack)
        return pack is not None and all(each.is_over for each in pack.attempts)
    return False


def forget_pack(root: Path, name: str) -> None:
    """Remove the folder of a job that is over."""
    with suppress(OSError):
        remove_tree(pack_folder(root, name))


def pack_words(root: Path, name: str, specs: Sequence[Spec], cluster: Cluster) -> list[str]:
    """The words of the submission."""
    folder = pack_folder(root, name)
    return words_of_job(f"{name}+", folder, folder / SLURM_LOG, specs, cluster)


def pack_script(root: Path, name: str, members: Sequence[SlurmKnown]) -> str:
    """What the node does: it becomes the parent of a keeper for each run."""
    folder = pack_folder(root, name)
    sealed = [f"{SEALED}{known.digest}" for known in members]
    words = [sys.executable, "-P", "-m", "mission_tui.keeper.pack", str(folder), PASSED, *sealed]
    return f"#!/bin/bash\n{unless_seen(folder / 'pack.json', root)}exec {shlex.join(words)}\n"


def pack_environ(members: Sequence[tuple[RunDir, LaunchOrder]], environ: Mapping[str, str]) -> dict[str, str]:
    """As for one run, with one half of a secret for each. Raises as `half_of_secrets` does."""
    halves = (half_of_secrets(run, order) for run, order in members)
    return {**kept_environ(environ), **{f"{SECRETS}_{place}": half for place, half in enumerate(halves)}}


def waits_for_company(known: SlurmKnown) -> bool:
    """Whether others may still come to share its job."""
    return (
        known.spec is not None
        and known.spec.slurm.pack > 1
        and not known.sending
        and time.monotonic() - known.since < GATHER_S
    )


FULL_S = 60.0
"""So long nothing is submitted after Slurm has said that it takes no more jobs of this user."""


_TOO_MUCH = re.compile(r"memory limit|oom.kill|out of memory", re.IGNORECASE)


class SlurmLauncher(EngineLauncher[SlurmJob]):
    """What a supervisor has of a cluster."""

    name = "slurm"
    title = "Slurm"
    log_name = SLURM_LOG

    def __init__(self) -> None:
        super().__init__()
        self._cluster: Cluster | None = None
        self._cancel: set[str] = set()
        """Numbers of jobs in the queue of which no member is left."""
        self._full = False
        """Whether Slurm took no more jobs of this user when it was asked last."""

    def submit(self, run: RunDir, order: LaunchOrder, digest: str) -> Handle:
        """Have the order handed over in the next `refresh`; its number follows."""
        spec = read_attempt_spec(run, order.attempt)
        self._known[run.id] = SlurmKnown(
            run,
            order.attempt,
            order.nonce,
            order=order,
            digest=digest,
            spec=spec,
            since=time.monotonic(),
            followed=True,
        )
        self._hurry()
        return Handle(launcher=self.name, id="", submitted_t=time.time())

    async def refresh(self, jobs: Sequence[Job]) -> None:
        """Submit what waits, say what was asked, and ask for the state of all. Raises `SlurmError`."""
        if self._cluster is None and any(known.is_due(time.monotonic()) for known in self._everybody()):
            await self._find_cluster()
        # Of whom nothing is known here, nobody has looked yet, or nobody wants to know any more.
        everybody = self._everybody()
        unsure = [known for known in everybody if known.order is not None and known.refused and not known.sending]
        fresh = [known for known in everybody if known.is_due(time.monotonic())]
        shared = [known for known in fresh if known.spec is not None and known.spec.slurm.pack > 1]
        due = [[known] for known in fresh if known not in shared]
        due += due_packs(shared, time.monotonic())
        # While there is no room one job finds out whether there is again.
        await asyncio.gather(*map(self._hand_over_together, due[:1] if self._full else due))
        wishes = [known for known in everybody if known.wish]
        for known in wishes:
            self._tell_keeper(known)
        if not self._is_due() and not wishes and not self._cancel:
            return
        self._polled_at = time.monotonic()
        found = read_jobs(await self._beside(call, ("squeue", "--json", "--states=all", "--user", str(os.getuid()))))
        for known in unsure:
            if known.key not in found and known.order is not None:
                why = SlurmError(f"Slurm did not take the job{known.refused}", unreached=True)
                self._put_off_or_refuse([known], why)
        # Of all jobs of all users: asked before one is called lost, and not again for one that the controller forgot.
        missed = [it for it in self._everybody() if it.number and it.missed == 1 and it.key not in found]
        sure = await self._listed_elsewhere() if missed else frozenset()
        for known in self._everybody():
            if known in missed and (sure is None or known.number in sure):
                continue
            known.followed |= known.key in found
            self._take(known, found.get(known.key))
            if self._is_lost(known):
                known.find_heartbeat()
        await asyncio.gather(*(self._carry_out(known) for known in wishes))
        while self._cancel:
            with suppress(SlurmError):
                await self._beside(call, ("scancel", self._cancel.pop()))

    async def _listed_elsewhere(self) -> frozenset[str] | None:
        """The numbers of all jobs that the controller has, by another command than the list that misses some; None
        where it does not say.
        """
        try:
            return job_numbers(await self._beside(call, ("scontrol", "--oneliner", "show", "job")))
        except SlurmError:
            return None

    def _unlisted(self, known: Known[SlurmJob], *, begun: bool) -> JobStatus:
        """A controller that came back without its jobs has forgotten them, and its nodes end them; a trainer that
        trains on all the same says so. Who only waited, or is silent, goes on in another job, unless somebody may have
        cancelled it while nobody looked.
        """
        if begun and known.beats:
            return JobStatus(stage="running", begun=True)
        seen = super()._unlisted(known, begun=begun)
        forgotten = f"Slurm does not know its job {known.number} any more"
        followed = isinstance(known, SlurmKnown) and known.followed
        return structs.replace(seen, why=forgotten, interrupted=forgotten) if followed else seen

    def _gone(self, known: Known[SlurmJob], *, begun: bool) -> JobStatus:
        """As for every engine. Only the log of a job says that it took too much memory, where Slurm uses no cgroups."""
        seen = super()._gone(known, begun=begun)
        if _TOO_MUCH.search(seen.why) is None or MORE_MEMORY in seen.why:
            return seen
        return structs.replace(seen, why=f"{seen.why}; {MORE_MEMORY}")

    def _everybody(self) -> list[SlurmKnown]:
        return [known for known in self._known.values() if isinstance(known, SlurmKnown)]

    async def _hand_over(self, known: SlurmKnown) -> None:
        order, spec = known.order, known.spec
        if order is None or spec is None:
            return
        try:
            words = sbatch_words(known.run, order, spec, self._asks)
            environ = job_environ(known.run, order, os.environ)
            await self._submit([known], words, script(known.run, order, known.digest), environ)
        except (MissionError, DamagedError, OSError) as error:
            self._put_off_or_refuse([known], error)

    async def _hand_over_together(self, members: list[SlurmKnown]) -> None:
        """Submit one job for all `members`; one that waited for others in vain has a job of its own."""
        if len(members) == 1:
            await self._hand_over(members[0])
            return
        root = members[0].run.path.parent
        orders = [(known.run, known.order) for known in members if known.order is not None]
        specs = [known.spec for known in members if known.spec is not None]
        try:
            name = write_pack(root, members)
            environ = pack_environ(orders, os.environ)
            for known in members:
                known.pack = name
                # A supervisor that comes after this one looks for the job by it.
                write_json(known.run.attempt(known.attempt).handle, self._handle(known, ""))
            words = pack_words(root, name, specs, self._asks)
            await self._submit(members, words, pack_script(root, name, members), environ)
        except (MissionError, DamagedError, OSError) as error:
            self._put_off_or_refuse(members, error)

    def _put_off_or_refuse(self, members: Sequence[SlurmKnown], error: Exception) -> None:
        """Whoever launches is told that Slurm cannot be reached; a run that goes on waits until it can: nobody would
        start it again. Where Slurm takes no more jobs of this user, every run waits.
        """
        full, unreached = (error.full, error.unreached) if isinstance(error, SlurmError) else (False, False)
        again_at = time.monotonic() + (FULL_S if full else POLL_S)
        if full:
            self._full = True
            # The others would be told the same: one of them asks again, later.
            for known in self._everybody():
                if known.order is not None and not known.sending and not known.refused:
                    known.put_off, known.again_at = str(error), again_at
        for known in members:
            begun = known.run.attempt(known.attempt).identity.exists()
            if known.order is None or begun or not (full or (unreached and known.attempt > 1)):
                self._refuse(known, str(error))
                continue
            known.put_off, known.again_at, known.refused = str(error), again_at, ""
            if known.pack:
                # Its company may be another one then.
                forget_pack(known.run.path.parent, known.pack)
                known.pack = ""
            if known.wish is not None:
                self._ask_member(known, known.wish)

    async def _find_cluster(self) -> None:
        """Ask what a job may ask for there, once for all who wait, and never again once that is known."""
        with suppress(SlurmError):
            self._cluster = read_cluster(await self._beside(call, ("scontrol", "show", "config")))

    @property
    def _asks(self) -> Cluster:
        """What a job may ask for; where Slurm did not answer, only what the spec says."""
        return self._cluster or Cluster()

    async def _submit(
        self, members: Sequence[SlurmKnown], words: Sequence[str], said: str, environ: Mapping[str, str]
    ) -> None:
        """Raises `SlurmError` where nothing was submitted."""
        for known in members:
            known.sending = True
        try:
            number = submitted_number(await self._beside(call, words, said, environ))
        except SlurmError as error:
            if not error.sent:
                raise
            # It may be in the queue all the same: the list of jobs tells.
            for known in members:
                known.refused = f" ({error})"
            self._hurry()
        else:
            for known in members:
                self._accepted(known, number)
        finally:
            for known in members:
                known.sending = False

    def _accepted(self, known: Known[SlurmJob], number: str) -> None:
        super()._accepted(known, number)
        _forget_spec(known)
        if self._full:
            self._full = False
            for other in self._everybody():
                other.again_at = float("-inf")

    def _refuse(self, known: Known[SlurmJob], why: str) -> None:
        super()._refuse(known, why)
        _forget_spec(known)

    def poll(self, job: Job) -> JobStatus:
        """As for every engine; of a job that several share, the end of one says nothing of the job."""
        known = self._of(job)
        files = job.dir.attempt(job.attempt)
        if known.dropped and not files.identity.exists():
            return JobStatus(stage="gone")
        if known.pack and files.exit.exists() and not self._ended_by_slurm(known):
            return self._gone(known, begun=files.identity.exists())
        return super().poll(job)

    def _ended_by_slurm(self, known: SlurmKnown) -> bool:
        """Whether Slurm may have ended an attempt whose record is there: why, its list of jobs says."""
        files = known.run.attempt(known.attempt)
        if files.signal.exists():
            return False
        with suppress(DamagedError, OSError):
            ended = read_exit(files.exit)
            return ended is not None and ended.start_error is None and (ended.code is None or ended.asked == "term")
        return False

    def is_free(self, run: RunDir) -> bool:
        """As for every engine; one that was taken from a queue may share a job that others have now."""
        known = self._known.get(run.id)
        return (isinstance(known, SlurmKnown) and known.dropped) or super().is_free(run)

    def release(self, job: Job) -> None:
        """Remember nothing of it; of a job that several share, the last one takes its folder along."""
        known = self._known.get(job.dir.id)
        super().release(job)
        if isinstance(known, SlurmKnown) and known.pack:
            root = job.dir.path.parent
            over = known.job is not None and not (known.job.waits or known.job.runs)
            if over or everybody_is_over(root, known.pack):
                forget_pack(root, known.pack)

    def _of(self, job: Job) -> SlurmKnown:
        known = self._known.get(job.dir.id)
        if not isinstance(known, SlurmKnown) or known.attempt != job.attempt:
            number, pack = ("", "") if job.handle is None else (job.handle.id, job.handle.pack)
            known = self._known[job.dir.id] = SlurmKnown(job.dir, job.attempt, job.nonce, number, pack=pack)
            self._hurry()
        return known

    def _handle(self, known: Known[SlurmJob], number: str) -> Handle:
        pack = known.pack if isinstance(known, SlurmKnown) else ""
        return Handle(launcher=self.name, id=number, submitted_t=time.time(), pack=pack)

    def _why_kept(self, known: Known[SlurmJob]) -> str:
        if isinstance(known, SlurmKnown) and waits_for_company(known):
            return FOR_COMPANY
        if isinstance(known, SlurmKnown) and known.put_off and not known.refused:
            return f"waits for Slurm: {known.put_off}"
        return super()._why_kept(known)

    def _ask(self, job: Job, what: Literal["stop", "kill"]) -> Reached:
        known = self._of(job)
        if known.pack or (known.spec is not None and known.spec.slurm.pack > 1 and known.order is not None):
            return self._ask_member(known, what)
        if known.put_off and known.order is not None and not known.sending:
            return self._ask_member(known, what)
        if known.order is not None and not known.refused:
            # `refresh` may be handing it over now: Slurm is told as soon as there is a number.
            known.wish = what
            return "keeper"
        if not known.was_taken and known.job is None:
            return "nobody"
        if known.job is None:
            # No command of Slurm reaches it; its keeper reads its own files.
            return self._ask_member(known, what)
        known.wish, known.told_at = what, None
        self._tell_keeper(known)
        self._hurry()
        return "keeper"

    def _tell_keeper(self, known: SlurmKnown) -> None:
        """Have the keeper on the node find in a file what Slurm, which may not answer, is told too. One that has not
        begun would take it for the word not to begin, and leave no record.
        """
        files = known.run.attempt(known.attempt)
        if known.wish is None or not files.identity.exists() or files.exit.exists():
            return
        with suppress(OSError):
            if read_plain(files.signal, 16) == SIGNAL_WORDS[known.wish]:
                return
        self._write_signal(known, known.wish)

    def _ask_member(self, known: SlurmKnown, what: Literal["stop", "kill"]) -> Reached:
        """Ask the keeper of one run of a job by its file; the others are not asked anything."""
        unsent = known.order is not None and not known.sending and not known.refused
        return self._ask_keeper(known, what, unsent=unsent)

    async def _carry_out(self, known: SlurmKnown) -> None:
        """Tell Slurm what was asked: SIGTERM or SIGQUIT to the keeper; again until it was heard, and with more force
        where a kill changes nothing.
        """
        found = known.job
        if known.wish is None or not known.was_taken:
            return
        if found is None:
            if self._is_lost(known) and known.told_at is not None:
                self._fence_off_unheard(known)
            return
        if not (found.waits or found.runs):
            known.wish = None
            return
        if known.pack:
            self._see_member_end(known, found)
            return
        number = known.number
        if found.waits or (found.state == SUSPENDED and known.wish == "kill"):
            # No signal is taken for a suspended job, whose keeper could hear none.
            words = ["scancel", number]
        elif known.told_at is None:
            words = ["scancel", "--batch", f"--signal={'TERM' if known.wish == 'stop' else 'QUIT'}", number]
        elif known.wish == "kill" and time.monotonic() - known.told_at > LAG_S:
            words = ["scancel", number]
        else:
            # Its keeper reads what it was asked.
            known.wish = None if known.wish == "stop" else known.wish
            return
        with suppress(SlurmError):
            await self._beside(call, words)
            known.told_at = time.monotonic() if known.told_at is None else known.told_at
            if known.wish == "stop":
                known.wish = None

    def _see_member_end(self, known: SlurmKnown, found: SlurmJob) -> None:
        """Of a job in the queue a member is dropped, and the job with the last of them: its keeper, should it begin all
        the same, finds the word. One that is not killed within `LAG_S` is fenced off.
        """
        files = known.run.attempt(known.attempt)
        if found.waits and not files.identity.exists():
            known.dropped, known.wish = True, None
            if everybody_is_over(known.run.path.parent, known.pack):
                self._cancel.add(found.number)
        elif known.wish == "stop" or files.exit.exists():
            known.wish = None
        else:
            self._fence_off_unheard(known)

    def _fence_off_unheard(self, known: SlurmKnown) -> None:
        """Of one whose keeper has not done in time what it was asked by its file, no trainer writes any more."""
        if known.wish == "kill" and known.told_at is not None and time.monotonic() - known.told_at > LAG_S:
            known.wish = None
            self._fence_off(known)


def _forget_spec(known: Known[SlurmJob]) -> None:
    """Let go of the spec of a job that runs: a thousand of them would take memory for nothing."""
    if isinstance(known, SlurmKnown):
        known.spec = None
