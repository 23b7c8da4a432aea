"""Import of a whole run: a short process reads the folder that stock SB3 or its zoo left, and it becomes an ended run.

Its findings are those that its logs give now, by the rules and limits of its spec.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.outcome import Finished, Outcome, Stopped
from mission_tui.fleet.events.provenance import IMPORTED, Origin
from mission_tui.fleet.text import clean
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import ImportRun
from mission_tui.records.runs.checkpoint import newest_verified
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.starting.importing import NAME_CHARS, Import, importing_run

__all__ = ["import_run"]


async def import_run(core: Core, request: ImportRun) -> Accepted:
    """Make the run. Raises `MissionError` with nothing made."""
    folder = Path(request.path)
    if not folder.is_absolute():
        raise UsageError(f"the path of the folder must be absolute, not '{folder}'")
    async with importing_run(core, request, f"{request.item.spec.preset[:24]}-imported") as importing:
        notes = await _imported(importing, folder, models=request.trusted)
    return Accepted(re=request.id, runs=(importing.run.id,), notes=notes)


async def _imported(importing: Import, folder: Path, *, models: bool) -> tuple[str, ...]:
    """The run on disk and known; what is to be said about it."""
    words = (str(folder), str(importing.work.path), "--run", importing.run.id, *(("--models",) if models else ()))
    result = await importing.read("mission_tui.trainer.foreign.import_run", *words)
    checkpoint = None
    if models:
        checkpoint = await asyncio.to_thread(newest_verified, importing.work.checkpoints)
        if checkpoint is None:
            raise MissionError(f"the import of {folder.name} left no checkpoint that can be read back")
    name = None if checkpoint is None else checkpoint.name
    findings = msgspec.convert(result.get("findings", []), list[Finding])
    outcome: Outcome = Finished(name, IMPORTED) if result.get("finished") else Stopped(name, IMPORTED)
    await importing.make(Origin("imported", "", clean(folder.name, NAME_CHARS), name or ""), outcome, findings)
    said = (clean(str(note), 300) for note in result.get("notes", ()))
    return (_summary(importing, result.get("updates"), len(findings), name), *said)


def _summary(importing: Import, updates: object, findings: int, checkpoint: str | None) -> str:
    name = importing.core.store.view(importing.run.id).name
    what = f"{name} has {updates} updates and {findings} finding{'' if findings == 1 else 's'}"
    if checkpoint is None:
        return f"{what}; look at it, judge it or compare it: it has no weights"
    return f"{what}, and stands at {checkpoint}; evaluate it, resume it or branch from it"
