"""Import: a short, confined process reads a foreign SB3 zip, and what it made becomes an ended run of ours."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.outcome import Stopped
from mission_tui.fleet.events.provenance import IMPORTED, Origin
from mission_tui.fleet.text import clean
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import ImportCheckpoint
from mission_tui.records.runs.checkpoint import newest_verified
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.starting.importing import NAME_CHARS, Import, importing_run

__all__ = ["import_checkpoint"]


async def import_checkpoint(core: Core, request: ImportCheckpoint) -> Accepted:
    """Make the run. Raises `MissionError` with nothing made, `UsageError` without the word that the file is trusted."""
    file = Path(request.path)
    if not request.trusted:
        raise UsageError(
            f"{file.name} may come from anybody, and reading it has to trust torch's loader with your account: "
            "say --trust if you know who made it; only its tensors and numbers are taken, in a confined process"
        )
    if not file.is_absolute():
        raise UsageError(f"the path of the zip must be absolute, not '{file}'")
    async with importing_run(core, request, f"{request.item.spec.preset[:24]}-imported") as importing:
        notes = await _imported(importing, file)
    return Accepted(re=request.id, runs=(importing.run.id,), notes=notes)


async def _imported(importing: Import, file: Path) -> tuple[str, ...]:
    """The run on disk and known; what is to be said about it."""
    work = importing.work
    words = ["--snapshot", str(work.snapshot)] if work.snapshot.is_dir() else []
    checkpoints = str(work.checkpoints)
    module = "mission_tui.trainer.foreign.import_checkpoint"
    result = await importing.read(module, str(file), checkpoints, "--run", importing.run.id, *words)
    checkpoint = await asyncio.to_thread(newest_verified, work.checkpoints)
    if checkpoint is None:
        raise MissionError(f"the import of {file.name} left no checkpoint that can be read back")
    origin = Origin("imported", "", clean(file.name, NAME_CHARS), checkpoint.name)
    await importing.make(origin, Stopped(checkpoint.name, IMPORTED))
    name = importing.core.store.view(importing.run.id).name
    said = (clean(str(note), 200) for note in result.get("notes", ()))
    return (f"{name} stands at {checkpoint.name}; evaluate it, resume it or branch from it", *said)
