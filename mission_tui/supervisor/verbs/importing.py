"""Runs that were made elsewhere become ours: a run directory is adopted, files of other programs are imported.

Adopt takes a run for ours on a person's word, as it was shown. An import makes an ended run: a short process reads the
files, nothing is made before. No foreign file reaches this process, and a run directory is made only once what is in it
has been read back. A foreign SB3 zip is read in a confined process. Of the folder that stock SB3 or its zoo left, the
findings are those that its logs give now, by the rules and limits of its spec.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import (
    AttemptEnded,
    AttemptStarting,
    FindingChanged,
    FleetEvent,
    RunPaused,
    RunResumed,
)
from mission_tui.fleet.events.outcome import Finished, Outcome, Stopped
from mission_tui.fleet.events.provenance import IMPORTED, Origin
from mission_tui.fleet.launch_plan import check_names
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.text import clean
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Adopt, ImportCheckpoint, Importing, ImportRun
from mission_tui.ipc.sockets import TELEMETRY_SOCKET
from mission_tui.paths import socket_dir
from mission_tui.plain_files import open_folder
from mission_tui.records.atomic import storing
from mission_tui.records.runs.checkpoint import newest_verified
from mission_tui.records.runs.layout import RunDir, supervisor_dir
from mission_tui.supervisor.host.children import Task, run_task
from mission_tui.supervisor.launchers.order import (
    Caller,
    absolute_paths,
    as_module,
    attempt_order,
    caller_from,
    with_spec_env,
)
from mission_tui.supervisor.lifecycle.adoption import load_ended, take_in_anew
from mission_tui.supervisor.lifecycle.first_attempts import new_run
from mission_tui.supervisor.readonly.details import adoption_sheet
from mission_tui.supervisor.runs import resolve_run
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.run_directory import MAKING, create_run, rule_files, write_snapshot
from mission_tui.supervisor.runs.run_on_disk import read_run

_FOLDERS = ("attempts", "checkpoints", "evaluations", "origin", "snapshot")

IMPORT_S = 300.0
Lived = tuple[float, float]
"""When a training began and ended, unix time."""

_EARLIEST = 1e8
NAME_CHARS = 80
"""What is kept of the name of the file or folder that a run came from."""


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


class Import(Struct, frozen=True):
    """One import: the run to be, and the directory `work` that its files are written into first."""

    core: Core
    spec: Spec
    caller: Caller
    run: RunDir
    name: str
    group: str | None
    work: RunDir

    async def read(self, module: str, *words: str) -> Mapping[str, Any]:
        """What the process `module` with `words` found. Raises `MissionError` with what it said."""
        argv, home = as_module(self.spec, self.caller, module)
        task = Task((*argv, *words), home.cwd, home.environ, msgspec.json.encode(self.spec), limits=home.limits)
        result = None
        async for said in run_task(task, IMPORT_S):
            result = said.get("result", result)
        if not isinstance(result, dict):
            raise MissionError(f"the import of {self.run.id} gave no result")
        return result

    async def make(
        self,
        origin: Origin,
        outcome: Outcome,
        findings: Sequence[Finding] = (),
        trained: Lived | None = None,
        pauses: Sequence[Lived] = (),
    ) -> None:
        """The run on disk and known, with everything in `work`. Raises `StorageError` with nothing made.

        Its journal says when it `trained`, by its logs, and in which `pauses` it did not, and not when it came here:
        what is old is no news.
        """
        core, now = self.core, time.time()
        began, ended = trained or (now, now)
        story: list[Callable[[int, float], FleetEvent]] = [lambda seq, _: AttemptStarting(seq, began, 1)]
        for held in pauses if trained else ():
            story += [partial(make, at) for make, at in zip((_held, _went_on), held, strict=True)]
        story += [partial(_found, finding, began, ended) for finding in findings]
        story.append(lambda seq, _: AttemptEnded(seq, ended, 1, outcome))
        await asyncio.to_thread(
            partial(
                create_run,
                core.root,
                core.seals,
                self.run,
                self.spec,
                attempt_order(core.root, self.run, 1, self.spec, self.caller, None),
                rule_files(self.spec.env, self.caller.cwd),
                self.name,
                self.group,
                origin,
                fill=self._move_in,
                story=story,
                created_t=began,
            )
        )
        load_ended(core, await asyncio.to_thread(read_run, self.run))
        core.changed.set()

    def _move_in(self, making: RunDir) -> None:
        with storing(making.path, "make"):
            for path in (self.work.checkpoints, self.work.metrics):
                if path.exists():
                    path.rename(making.path / path.name)


@asynccontextmanager
async def importing_run(core: Core, request: Importing, stem: str) -> AsyncGenerator[Import]:
    """A place to read into, gone afterwards. Raises `MissionError`: a name that is taken, no room, missing rules."""
    check_names((request.item,))
    core.check_room()
    spec = absolute_paths(request.item.spec, request.cwd)
    caller = with_spec_env(spec, caller_from(request))
    with new_run(core, request.item.name, stem) as (run, name):
        work = RunDir(supervisor_dir(core.root) / f"{MAKING}{run.id}.imported")
        try:
            with storing(work.path, "make"):
                work.path.mkdir(mode=0o700)
            write_snapshot(work, rule_files(spec.env, caller.cwd))
            yield Import(core, spec, caller, run, name, request.item.group, work)
        finally:
            await asyncio.to_thread(shutil.rmtree, work.path, ignore_errors=True)


def _held(at: float, seq: int, _: float) -> FleetEvent:
    return RunPaused(seq, at, 1)


def _went_on(at: float, seq: int, _: float) -> FleetEvent:
    return RunResumed(seq, at, 1)


def _found(finding: Finding, began: float, ended: float, seq: int, _: float) -> FleetEvent:
    return FindingChanged(seq, min(max(finding.last_t, began), ended), finding)


async def import_checkpoint(core: Core, request: ImportCheckpoint) -> Accepted:
    """Make the run. Raises `MissionError` with nothing made, `UsageError` without the word that the file is trusted."""
    file = Path(request.path)
    if not request.trusted:
        raise UsageError(
            f"{file.name} is read with torch's loader, which can run code that a file of unknown origin contains: give "
            "--trust if you know who made it; only its tensors and numbers are taken, in a confined process"
        )
    if not file.is_absolute():
        raise UsageError(f"the path of the zip must be absolute, not '{file}'")
    async with importing_run(core, request, f"{request.item.spec.preset[:24]}-imported") as importing:
        notes = await _checkpoint_imported(importing, file)
    return Accepted(re=request.id, runs=(importing.run.id,), notes=notes)


async def _checkpoint_imported(importing: Import, file: Path) -> tuple[str, ...]:
    """The run on disk and known; what is to be said about it."""
    work = importing.work
    words = ["--snapshot", str(work.snapshot)] if work.snapshot.is_dir() else []
    checkpoints = str(work.checkpoints)
    module = "mission_tui.trainer.import_checkpoint"
    result = await importing.read(module, str(file), checkpoints, "--run", importing.run.id, *words)
    checkpoint = await asyncio.to_thread(newest_verified, work.checkpoints)
    if checkpoint is None:
        raise MissionError(f"the import of {file.name} left no checkpoint that can be read back")
    origin = Origin("imported", "", clean(file.name, NAME_CHARS), checkpoint.name)
    await importing.make(origin, Stopped(checkpoint.name, IMPORTED))
    name = importing.core.store.view(importing.run.id).name
    said = (clean(str(note), 200) for note in result.get("notes", ()))
    return (f"{name} stands at {checkpoint.name}; evaluate it, resume it or branch from it", *said)


async def import_run(core: Core, request: ImportRun) -> Accepted:
    """Make the run. Raises `MissionError` with nothing made."""
    folder = Path(request.path)
    if not folder.is_absolute():
        raise UsageError(f"the path of the folder must be absolute, not '{folder}'")
    if (known := _imported_before(core, folder)) is not None:
        name = core.name_of(known)
        note = f"{folder} is {name} already, nothing was made; if it has grown since, `rm {name}` and import it again"
        return Accepted(re=request.id, runs=(known,), notes=(note,))
    async with importing_run(core, request, f"{request.item.spec.preset[:24]}-imported") as importing:
        notes = await _run_imported(importing, folder, models=request.trusted)
    return Accepted(re=request.id, runs=(importing.run.id,), notes=notes)


def _imported_before(core: Core, folder: Path) -> str | None:
    """The run that was made of `folder`; None where there is none."""
    for run_id in core.store.run_ids():
        journal = core.store.run(run_id).journal
        if journal.branched is not None and journal.branched.path == str(folder) and not journal.foreign:
            return run_id
    return None


def _lived(result: Mapping[str, Any]) -> Lived | None:
    """When the training began and ended, as its logs say, if that is a time that has been."""
    began, ended = result.get("began_t"), result.get("ended_t")
    if not isinstance(began, float) or not isinstance(ended, float) or not 0.0 < began <= ended <= time.time():
        return None
    # Monitors that lost their first line count from 0.
    return began if began > _EARLIEST else ended, ended


async def _run_imported(importing: Import, folder: Path, *, models: bool) -> tuple[str, ...]:
    """The run on disk and known; what is to be said about it."""
    words = (str(folder), str(importing.work.path), "--run", importing.run.id, *(("--models",) if models else ()))
    result = await importing.read("mission_tui.trainer.import_run", *words)
    checkpoint = None
    if models:
        checkpoint = await asyncio.to_thread(newest_verified, importing.work.checkpoints)
        if checkpoint is None:
            raise MissionError(f"the import of {folder.name} left no checkpoint that can be read back")
    name = None if checkpoint is None else checkpoint.name
    findings = msgspec.convert(result.get("findings", []), list[Finding])
    outcome: Outcome = Finished(name, IMPORTED) if result.get("finished") else Stopped(name, IMPORTED)
    origin = Origin("imported", "", clean(folder.name, NAME_CHARS), name or "", path=str(folder))
    pauses = msgspec.convert(result.get("pauses", []), list[Lived])
    await importing.make(origin, outcome, findings, _lived(result), pauses)
    said = (clean(str(note), 300) for note in result.get("notes", ()))
    return (_summary(importing, result.get("updates"), len(findings), name), *said)


def _summary(importing: Import, updates: object, findings: int, checkpoint: str | None) -> str:
    name = importing.core.store.view(importing.run.id).name
    what = f"{name} has {updates} updates and {findings} finding{'' if findings == 1 else 's'}"
    if checkpoint is None:
        return f"{what}; look at it, judge it or compare it: it has no weights"
    return f"{what}, and stands at {checkpoint}; evaluate it, resume it or branch from it"
