"""What came from somebody else's files becomes an ended run: a short process reads them, nothing is made before.

No foreign file reaches this process, and a run directory is made only once what is in it has been read back.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from mission_tui.errors import MissionError
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, FindingChanged, FleetEvent
from mission_tui.fleet.events.outcome import Outcome
from mission_tui.fleet.events.provenance import Origin
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.requests import Importing, LaunchItem
from mission_tui.records.files.storage import storing
from mission_tui.records.runs.layout import RunDir, check_name, supervisor_dir
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.disk.adoption import load_ended
from mission_tui.supervisor.disk.run_directory import MAKING, create_run, rule_files, write_snapshot
from mission_tui.supervisor.disk.run_on_disk import read_run
from mission_tui.supervisor.launchers.local import attempt_order
from mission_tui.supervisor.starting.caller import Caller, absolute_paths, with_spec_env
from mission_tui.supervisor.starting.interpreter import as_module
from mission_tui.supervisor.starting.launching import new_run_dir
from mission_tui.supervisor.tasks import Task, run_task

__all__ = ["NAME_CHARS", "Import", "importing_run"]

LIMIT_S = 300.0
NAME_CHARS = 80
"""What is kept of the name of the file or folder that a run came from."""


@dataclass(frozen=True, slots=True)
class Import:
    """One import: the run to be, and the directory `work` that its files are written into first."""

    core: Core
    item: LaunchItem
    spec: Spec
    caller: Caller
    run: RunDir
    work: RunDir

    async def read(self, module: str, *words: str) -> Mapping[str, Any]:
        """What the process `module` with `words` found. Raises `MissionError` with what it said."""
        argv, home = as_module(self.spec, self.caller, module)
        task = Task((*argv, *words), home.cwd, home.environ, msgspec.json.encode(self.spec), limits=home.limits)
        result = None
        async for said in run_task(task, LIMIT_S):
            result = said.get("result", result)
        if not isinstance(result, dict):
            raise MissionError(f"the import of {self.run.id} gave no result")
        return result

    async def make(self, origin: Origin, outcome: Outcome, findings: Sequence[Finding] = ()) -> None:
        """The run on disk and known, with everything in `work`. Raises `StorageError` with nothing made."""
        item, core = self.item, self.core
        story: list[Callable[[int, float], FleetEvent]] = [lambda seq, t: AttemptStarting(seq, t, 1)]
        story += [partial(_found, finding) for finding in findings]
        story.append(lambda seq, t: AttemptEnded(seq, t, 1, outcome))
        await asyncio.to_thread(
            partial(
                create_run,
                core.root,
                core.seals,
                self.run,
                self.spec,
                attempt_order(core.root, self.run, 1, self.spec, self.caller, None),
                rule_files(self.spec.env, self.caller.cwd),
                item.name or self.run.id[16:],
                item.group,
                origin,
                fill=self._move_in,
                story=story,
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
    """A place to read into, gone afterwards. Raises `MissionError`: a bad name, no room, missing rules."""
    if request.item.name is not None:
        check_name(request.item.name)
    core.check_room()
    spec = absolute_paths(request.item.spec, request.cwd)
    caller = with_spec_env(spec, Caller(request.python, request.cwd, request.environ, limits=request.limits))
    run = new_run_dir(core, request.item.name or stem)
    work = RunDir(supervisor_dir(core.root) / f"{MAKING}{run.id}.imported")
    try:
        with storing(work.path, "make"):
            work.path.mkdir(mode=0o700)
        write_snapshot(work, rule_files(spec.env, caller.cwd))
        yield Import(core, request.item, spec, caller, run, work)
    finally:
        await asyncio.to_thread(shutil.rmtree, work.path, ignore_errors=True)


def _found(finding: Finding, seq: int, t: float) -> FleetEvent:
    return FindingChanged(seq, t, finding)
