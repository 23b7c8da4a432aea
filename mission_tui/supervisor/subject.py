"""What a request is about: a run, one of its checkpoints, and whose Python, folder and variables it is done with."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.events.provenance import sources_of
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.requests import ContinuingRequest
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.best_checkpoint import best_checkpoint
from mission_tui.records.runs.checkpoint import list_checkpoints, newest_undamaged
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.spec_file import read_spec
from mission_tui.supervisor.catalog import resolve_run
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.starting.caller import Caller
from mission_tui.supervisor.starting.interpreter import as_module
from mission_tui.supervisor.starting.variables import recover_variables
from mission_tui.supervisor.targets import require
from mission_tui.supervisor.tasks import Task

__all__ = ["Subject", "caller_for", "caller_of", "named_checkpoint", "subject_of"]


@dataclass(frozen=True, slots=True)
class Subject:
    """A checkpoint of a run, its spec, and who launched it."""

    run: RunDir
    checkpoint: str
    spec: Spec
    caller: Caller
    lack: str = ""
    """Of which of the run's variables nobody has the values."""

    def task(self, module: str, *words: str, attended: bool = False) -> Task:
        """A short process that is `module` with `words` in the run's own Python.

        A run that was launched in a folder that is gone is played from its own, unless its code came from there. Raises
        `PresetError`, and `UsageError` in that case.
        """
        argv, home = as_module(self.spec, self.caller, module)
        if not Path(home.cwd).is_dir():
            if sources_of(self.spec):
                raise UsageError(
                    f"{self.run.id} was launched in {home.cwd}, which is gone, and code of its own may come from "
                    "there; put the folder back"
                )
            home = replace(home, cwd=str(self.run.path))
        return Task((*argv, *words), home.cwd, home.environ, about=self.run.id, attended=attended, limits=home.limits)


async def subject_of(
    core: Core, ref: str, checkpoint: str | None, verb: str, environ: Mapping[str, str] | None = None
) -> Subject:
    """The named checkpoint of the run, for `verb`: by its step, "best" or "latest"; None takes the newest.

    What nobody remembers of the run's variables is taken from `environ`, that of whoever asks.

    Raises `UsageError` without one, `CheckpointError` where the newest is damaged: an older one has to be named.
    """
    run_id = resolve_run(core, ref)
    require(core, run_id, verb)
    run = core.run_dir(run_id)
    if checkpoint == "best":
        name = await asyncio.to_thread(_best, run)
    elif checkpoint not in (None, "latest"):
        name = named_checkpoint(run, checkpoint)
    else:
        newest = await asyncio.to_thread(newest_undamaged, run.checkpoints)
        if newest is None:
            view = core.store.view(run_id)
            hint = "" if view.state in OVER else " yet; `mission-tui checkpoint` asks for one"
            raise UsageError(f"{view.name} has no checkpoint{hint}")
        name = newest.name
    known = core.store.run(run_id)
    spec = known.spec if known.spec is not None else read_spec(run.spec)
    recalled = recover_variables(core, _order_of(core, run, known.journal.attempt), spec, environ)
    return Subject(run, name, spec, recalled.caller, recalled.lack)


def _best(run: RunDir) -> str:
    """The checkpoint of the highest mean return. Raises `UsageError` where no return is known of any."""
    name = best_checkpoint(run, list_checkpoints(run.checkpoints))
    if name is None:
        raise UsageError(f"{run.id} has no checkpoint of which a return is known; 'latest' or a step names one")
    return name


def named_checkpoint(run: RunDir, name: str) -> str:
    """The checkpoint `name`, also given without its leading zeros. Raises `UsageError` with the nearest."""
    names = [manifest.name for manifest in list_checkpoints(run.checkpoints)]
    for known in names:
        if name in (known, known.lstrip("0") or "0"):
            return known
    raise UsageError(f"{run.id} has no checkpoint '{name}'{nearest(name, names)}; it has {', '.join(names) or 'none'}")


def caller_for(core: Core, run_id: str, request: ContinuingRequest) -> Caller:
    """Whoever asks, where they say who they are; else whoever launched the newest attempt of `run_id`.

    Raises `UsageError` as `caller_of`.
    """
    if request.python is not None and request.cwd is not None and request.environ is not None:
        return Caller(request.python, request.cwd, request.environ, limits=request.limits)
    return caller_of(core, core.run_dir(run_id), core.store.run(run_id).journal.attempt)


def caller_of(core: Core, run: RunDir, attempt: int) -> Caller:
    """Who launched `attempt`, with those of its secrets whose values can be had now.

    Raises `UsageError` when that cannot be read any more, or is not what was written there.
    """
    return recover_variables(core, _order_of(core, run, attempt), core.store.run(run.id).spec).caller


def _order_of(core: Core, run: RunDir, attempt: int) -> LaunchOrder:
    sealed = core.seals.check(run, attempt)
    if sealed.order is None:
        raise UsageError(f"who launched attempt {attempt} of {run.id} is not known here: {sealed.foreign}")
    return sealed.order
