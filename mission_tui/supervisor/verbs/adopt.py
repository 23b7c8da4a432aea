"""Adopt: a run that was made elsewhere is taken for ours on a person's word, as it was shown."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import suppress

from mission_tui.errors import UsageError
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Adopt
from mission_tui.ipc.sockets import TELEMETRY_SOCKET
from mission_tui.paths import socket_dir
from mission_tui.plain_files import open_folder
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.lifecycle.adoption import take_in_anew
from mission_tui.supervisor.queries.adoptable import adoption_sheet
from mission_tui.supervisor.runs.catalog import resolve_run
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.registry import Runs

_FOLDERS = ("attempts", "checkpoints", "evaluations", "origin", "snapshot")


async def adopt(core: Core, request: Adopt) -> Accepted:
    """Seal the runs as they lie here, and go on with each as with one of ours. Raises `UsageError`, `StorageError`.

    A run of which something else lies there than what a person was shown is refused, with nothing adopted.
    """
    if len(request.runs) != len(request.digests):
        raise UsageError("each run that is adopted needs the digest of what was shown of it")
    chosen = [(resolve_run(core, ref), digest) for ref, digest in zip(request.runs, request.digests, strict=True)]
    async with core.adopting:
        # Closed to all others first: what is compared after that is what is sealed.
        for run_id, _ in chosen:
            _check_rests(core, run_id)
            await asyncio.to_thread(_close_to_others, core.run_dir(run_id))
        for run_id, digest in chosen:
            sheet = await asyncio.to_thread(adoption_sheet, core.run_dir(run_id), core.seals)
            if sheet is None or not digest or sheet.digest != digest:
                raise UsageError(f"{core.name_of(run_id)} has changed since it was shown; look at it again")
        for run_id, _ in chosen:
            _check_rests(core, run_id)
            run = core.run_dir(run_id)
            await asyncio.to_thread(_seal, core, run)
            take_in_anew(core, run)
    core.changed.set()
    return Accepted(re=request.id, runs=tuple(run_id for run_id, _ in chosen))


def _check_rests(runs: Runs, run_id: str) -> None:
    """Raise `UsageError` for a run that lives, or was removed, while another client waited."""
    if run_id not in runs.store:
        raise UsageError(f"{run_id} was removed meanwhile")
    if run_id in runs.live:
        raise UsageError(f"{runs.name_of(run_id)} lives here; stop it first")


def _close_to_others(run: RunDir) -> None:
    """Take away what others may do in the run's folders, each opened first, so that no link is followed.

    Raises `OSError`.
    """
    folders = [run.path, *(run.path / name for name in _FOLDERS), *(run.attempt(n).path for n in run.attempts())]
    for path in folders:
        try:
            folder = open_folder(path)
        except (FileNotFoundError, NotADirectoryError):
            if path == run.path:
                raise
            continue
        try:
            os.fchmod(folder, 0o700)
        finally:
            os.close(folder)


def _seal(core: Core, run: RunDir) -> None:
    """Seal the run, with a lease that is its own: a copy made of hard links has that of the original.

    Raises `StorageError`.
    """
    with suppress(OSError):
        facts = run.lease.lstat()
        if facts.st_nlink > 1 or not stat.S_ISREG(facts.st_mode):
            run.lease.unlink()
    core.seals.adopt(run, socket_dir(core.root) / TELEMETRY_SOCKET)
