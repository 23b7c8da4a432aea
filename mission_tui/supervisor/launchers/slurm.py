"""Attempts as jobs of Slurm: one job an attempt, submitted by `sbatch`, all asked about by one `squeue`.

Nothing here waits for a command: `refresh` calls them beside the loop.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from mission_tui.errors import DamagedError, MissionError
from mission_tui.records.runs.spec_file import read_attempt_spec
from mission_tui.supervisor.launchers import Job, Reached
from mission_tui.supervisor.launchers.engine import LAG_S, EngineLauncher, Known
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
)


class SlurmLauncher(EngineLauncher[SlurmJob]):
    """What a supervisor has of a cluster."""

    name = "slurm"
    title = "Slurm"
    log_name = SLURM_LOG

    async def refresh(self, jobs: Sequence[Job]) -> None:
        """Submit what waits, say what was asked, and ask for the state of all. Raises `SlurmError`."""
        # Of whom nothing is known here, nobody has looked yet, or nobody wants to know any more.
        await asyncio.gather(*(self._hand_over(known) for known in list(self._known.values()) if known.order))
        wishes = [known for known in self._known.values() if known.wish]
        if not self._is_due() and not wishes:
            return
        self._polled_at = time.monotonic()
        found = read_jobs(
            await asyncio.to_thread(call, ("squeue", "--json", "--states=all", "--user", str(os.getuid())))
        )
        for known in list(self._known.values()):
            self._take(known, found.get((job_name(known.run, known.attempt), str(known.run.path))))
        await asyncio.gather(*(self._carry_out(known) for known in wishes))

    async def _hand_over(self, known: Known[SlurmJob]) -> None:
        order = known.order
        if order is None:
            return
        if known.refused and not await self._was_lost(known):
            return
        try:
            spec = read_attempt_spec(known.run, order.attempt)
            words, environ = sbatch_words(known.run, order, spec), job_environ(known.run, order, os.environ)
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

    async def _was_lost(self, known: Known[SlurmJob]) -> bool:
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

    async def _carry_out(self, known: Known[SlurmJob]) -> None:
        """Tell Slurm what was asked: SIGTERM or SIGQUIT to the keeper; again until it was heard, and with more force
        where a kill changes nothing.
        """
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
