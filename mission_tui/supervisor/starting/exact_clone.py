"""As a run began: its first spec, rules and caller, and everything that is no longer the same when it begins again."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mission_tui.errors import UsageError
from mission_tui.fleet.events.provenance import sources_of
from mission_tui.fleet.resume import ResumeFacts, judge_resume
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.requests import Clone
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.rules_snapshot import kept_rules
from mission_tui.records.runs.spec_file import read_attempt_spec
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.starting.caller import Caller, with_spec_env
from mission_tui.supervisor.subject import caller_of

__all__ = ["OriginalLaunch", "original_launch"]

_COMMAND = "MISSION_TUI_COMMAND"
_YOURS = "clone without --exact uses yours"


@dataclass(frozen=True, slots=True)
class OriginalLaunch:
    """What the run's first attempt was launched with; `changes` are all that such a launch now would not have."""

    spec: Spec
    rules: list[Path]
    caller: Caller
    changes: tuple[Change, ...]


async def original_launch(core: Core, run_id: str, request: Clone) -> OriginalLaunch:
    """How the run began, held against now. Raises `MissionError` when that cannot be read, or be had any more."""
    run = core.run_dir(run_id)
    spec = await asyncio.to_thread(read_attempt_spec, run, 1)
    environ = request.environ or {}
    caller, withheld = _caller(core, run, environ)
    if caller.limits is None:
        # Begun by an earlier version, which recorded none.
        caller = replace(caller, limits=request.limits)
    name = core.store.view(run_id).name
    if shutil.which(caller.python) is None:
        raise UsageError(f"cannot clone {name} exactly: its Python {caller.python} is gone; {_YOURS}")
    if not await asyncio.to_thread(Path(caller.cwd).is_dir):
        raise UsageError(f"cannot clone {name} exactly: its folder {caller.cwd} is gone; {_YOURS}")
    since = await core.provenance.every_difference(run, 1, with_spec_env(spec, caller), sources_of(spec))
    own = (*_on_its_way(core, run_id, spec), *_weights(core, run_id), *withheld)
    return OriginalLaunch(spec, await asyncio.to_thread(_rules, run), caller, (*own, *since))


def _caller(core: Core, run: RunDir, environ: Mapping[str, str]) -> tuple[Caller, tuple[Change, ...]]:
    """Who launched the first attempt; secrets that nobody remembers are those of who asks now, which is said."""
    caller = caller_of(core, run, 1)
    forgotten = sorted(caller.secrets - caller.environ.keys())
    known = {name: environ[name] for name in forgotten if name in environ}
    words = {_COMMAND: environ[_COMMAND]} if _COMMAND in environ else {}
    why = "its value was a secret and never written down"
    changes = tuple(
        Change(f"variable {name}", "set", "as in your shell" if name in known else "not set", "note", why)
        for name in forgotten
    )
    return replace(caller, environ={**caller.environ, **known, **words}), changes


def _rules(run: RunDir) -> list[Path]:
    """The rules of the first attempt: kept with the last attempt that had them once others took their place."""
    kept = (run.attempt(number).path / run.snapshot.name for number in run.attempts())
    folder = next((folder for folder in kept if folder.is_dir()), run.snapshot)
    return kept_rules(folder) if folder.is_dir() else []


def _on_its_way(core: Core, run_id: str, first: Spec) -> Iterator[Change]:
    newest = core.store.run(run_id).spec
    why = "it was changed on its way; a clone begins as it began"
    for change in () if newest is None else judge_resume(first, newest, ResumeFacts(0)).changes:
        if change.was != change.now:
            yield Change(change.name, change.now, change.was, "note", why)


def _weights(core: Core, run_id: str) -> Iterator[Change]:
    for origin in core.store.view(run_id).origins:
        if origin.kind in ("branch", "imported"):
            was = f"{origin.name} at {origin.checkpoint}" if origin.checkpoint else origin.name
            yield Change("weights", was, "none", "note", "it began with weights; an exact clone begins from scratch")
