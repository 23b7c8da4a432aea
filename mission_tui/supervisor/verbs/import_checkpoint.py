"""Import: a short, confined process reads a foreign SB3 zip, and what it made becomes an ended run of ours.

The zip never reaches this process, and a run directory is made only once the checkpoint in it has been read back.
"""

from __future__ import annotations

import asyncio
import shutil
from functools import partial
from pathlib import Path

import msgspec

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events import AttemptEnded, AttemptStarting, FleetEvent
from mission_tui.fleet.lineage import Origin
from mission_tui.fleet.outcome import Stopped
from mission_tui.fleet.text import clean
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import ImportCheckpoint
from mission_tui.records.checkpoint import newest_verified
from mission_tui.records.layout import RunDir, check_name, supervisor_dir
from mission_tui.records.storage import storing
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.disk.adoption import load_ended
from mission_tui.supervisor.disk.run_directory import MAKING, create_run, rule_files, write_snapshot
from mission_tui.supervisor.disk.run_on_disk import read_run
from mission_tui.supervisor.launchers.local import attempt_order
from mission_tui.supervisor.starting.caller import Caller, at_home, settled
from mission_tui.supervisor.starting.interpreter import as_module
from mission_tui.supervisor.starting.new_run import new_run_dir
from mission_tui.supervisor.starting.seeds import seeded
from mission_tui.supervisor.tasks import Task, run_task

__all__ = ["import_checkpoint"]

LIMIT_S = 300.0
_CAUSE = "imported; it was not trained here"
_NAME_CHARS = 80


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
    if request.item.name is not None:
        check_name(request.item.name)
    core.check_room()
    run = new_run_dir(core, request.item.name or f"{request.item.spec.preset[:24]}-imported")
    work = RunDir(supervisor_dir(core.root) / f"{MAKING}{run.id}.imported")
    try:
        with storing(work.path, "make"):
            work.path.mkdir(mode=0o700)
        notes = await _imported(core, request, file, run, work)
    finally:
        await asyncio.to_thread(shutil.rmtree, work.path, ignore_errors=True)
    return Accepted(re=request.id, runs=(run.id,), notes=notes)


async def _imported(core: Core, request: ImportCheckpoint, file: Path, run: RunDir, work: RunDir) -> tuple[str, ...]:
    """The run on disk and known; what is to be said about it."""
    item = request.item
    spec = seeded(settled(item.spec, request.cwd))
    caller = at_home(spec, Caller(request.python, request.cwd, request.environ))
    rules = rule_files(spec.env, caller.cwd)
    write_snapshot(work, rules)
    words = ["--snapshot", str(work.snapshot)] if rules else []
    argv, home = as_module(spec, caller, "mission_tui.trainer.import_checkpoint")
    argv = (*argv, str(file), str(work.checkpoints), "--run", run.id, *words)
    task = Task(argv, home.cwd, home.environ, msgspec.json.encode(spec))
    result = None
    async for said in run_task(task, LIMIT_S):
        result = said.get("result", result)
    if not isinstance(result, dict):
        raise MissionError(f"the import of {file.name} gave no result")
    checkpoint = await asyncio.to_thread(newest_verified, work.checkpoints)
    if checkpoint is None:
        raise MissionError(f"the import of {file.name} left no checkpoint that can be read back")
    origin = Origin("imported", "", clean(file.name, _NAME_CHARS), checkpoint.name)
    order = attempt_order(core.root, run, 1, spec, caller, None)
    await asyncio.to_thread(
        partial(
            create_run,
            core.root,
            run,
            spec,
            order,
            rules,
            item.name or run.id[16:],
            item.group,
            origin,
            fill=partial(_move_in, work),
            story=(_starting, partial(_ended, checkpoint.name)),
        )
    )
    load_ended(core, await asyncio.to_thread(read_run, run))
    core.changed.set()
    said_of_it = (clean(str(note), 200) for note in result.get("notes", ()))
    return (
        f"{core.store.view(run.id).name} stands at {checkpoint.name}; evaluate it, resume it or branch from it",
        *said_of_it,
    )


def _move_in(work: RunDir, making: RunDir) -> None:
    with storing(making.checkpoints, "make"):
        work.checkpoints.rename(making.checkpoints)


def _starting(seq: int, t: float) -> FleetEvent:
    return AttemptStarting(seq, t, 1)


def _ended(checkpoint: str, seq: int, t: float) -> FleetEvent:
    return AttemptEnded(seq, t, 1, Stopped(checkpoint, _CAUSE))
