"""Export: a short process writes a checkpoint as an ordinary SB3 zip."""

from __future__ import annotations

from pathlib import Path

from mission_tui.errors import UsageError
from mission_tui.ipc.replies import Exported
from mission_tui.ipc.requests import Export
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.subject import subject_of
from mission_tui.supervisor.tasks import run_task

__all__ = ["export"]


async def export(core: Core, request: Export) -> Exported:
    """Write the zip at the absolute `path`. Raises `MissionError` with what the process said."""
    path = Path(request.path)
    if not path.is_absolute():
        raise UsageError(f"the export's path must be absolute, not '{path}'")
    subject = await subject_of(core, request.run, request.checkpoint, "export")
    words = ("--checkpoint", subject.checkpoint, str(path))
    task = subject.task("mission_tui.trainer.export", str(subject.run.path), *words)
    async for _ in run_task(task):
        pass
    return Exported(re=request.id, path=str(path), checkpoint=subject.checkpoint)
