"""Launch and clone: all of the asked runs get a directory and a keeper, or none does and the reason is said.

A clone has the settings, the rules and the seed of another run, but for what is changed; nothing is learned. The source
is only read, so it may be live. An exact one is as the source began: its first spec, rules and caller. What is so no
longer is accepted first.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.provenance import Origin, diff_of, sources_of
from mission_tui.fleet.resume import ResumeFacts, judge_resume
from mission_tui.fleet.resume.verdict import Change, ResumeVerdict
from mission_tui.fleet.specs.consistency import cautions
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Accepted, Launched, VerdictReply
from mission_tui.ipc.requests import Clone, Launch
from mission_tui.records.runs.code_files import kept_rules
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.spec_file import read_attempt_spec
from mission_tui.supervisor.host.own_limits import said_of_limits
from mission_tui.supervisor.launchers.caller import (
    Caller,
    absolute_paths,
    caller_from,
    check_program,
    with_script_python,
    with_spec_env,
)
from mission_tui.supervisor.launchers.interpreter import needs_no_preflight, preflight
from mission_tui.supervisor.launchers.order import attempt_order
from mission_tui.supervisor.lifecycle import first_attempts
from mission_tui.supervisor.runs.catalog import resolve_run
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.run_directory import create_run
from mission_tui.supervisor.runs.targets import caller_for

_MOST_DIFFERENCES = 16
"""Differences that the new run remembers as its origin."""
_COMMAND = "MISSION_TUI_COMMAND"
_YOURS = "clone without --exact uses yours"


async def launch(core: Core, request: Launch) -> Launched:
    """Make and start the runs; `Launched` means that they are on disk. Raises `MissionError` with nothing made."""
    caller = caller_from(request)
    made, warnings = await first_attempts.begin_runs(core, request.items, caller)
    views = tuple(core.store.view(run_id) for run_id in made)
    return Launched(re=request.id, runs=views, warnings=(*warnings, *said_of_limits(request.limits), *_queued(views)))


def _queued(views: Sequence[RunView]) -> Iterator[str]:
    """What the new runs wait for, a sentence for all that wait for the same."""
    names: dict[str, list[str]] = {}
    for view in views:
        if view.state == "queued" and view.cause:
            names.setdefault(view.cause, []).append(view.name)
    for cause, waiting in names.items():
        yield f"{waiting[0]} {cause}" if len(waiting) == 1 else f"{', '.join(waiting)}: each {cause}"


async def clone(core: Core, request: Clone) -> Accepted | VerdictReply:
    """Make and start the new run, or say what an exact one would not have any more and was not accepted.

    Raises `MissionError` with nothing made.
    """
    run_id = resolve_run(core, request.run)
    if request.exact:
        return await _exactly(core, run_id, request)
    was = core.store.run(run_id).spec
    if was is None:
        raise MissionError(f"cannot clone {core.store.view(run_id).name}: its spec cannot be read")
    caller = caller_for(core, run_id, request)
    now = first_attempts.with_seed(
        absolute_paths(change(was, request.assignments), caller.cwd) if request.assignments else was
    )
    rules = first_attempts.rules_for(core, core.run_dir(run_id), was, now, caller)
    changes = judge_resume(was, now, ResumeFacts(0)).changes
    made, lacking = await _cloned(core, run_id, request, now, rules, caller, changes)
    note = core.store.view(made).origins[0].sentence
    return Accepted(re=request.id, runs=(made,), notes=(note, *lacking, *cautions(now)))


async def _exactly(core: Core, run_id: str, request: Clone) -> Accepted | VerdictReply:
    if request.assignments:
        raise UsageError("an exact clone has the settings of its run: leave out --set, or --exact")
    begun = await original_launch(core, run_id, request)
    if begun.changes and not request.accept:
        verdict = ResumeVerdict("note", begun.changes)
        return VerdictReply(re=request.id, run=run_id, verdict=verdict, accept_needed=True)
    made, lacking = await _cloned(
        core, run_id, request, first_attempts.with_seed(begun.spec), begun.rules, begun.caller, begun.changes
    )
    said = tuple(f"{it.name}: {it.was} -> {it.now}" for it in begun.changes)
    same = () if said else ("nothing that is recorded of it has changed since",)
    return Accepted(re=request.id, runs=(made,), notes=(*same, *said, *lacking))


async def _cloned(
    core: Core,
    source_id: str,
    request: Clone,
    spec: Spec,
    rules: list[Path],
    caller: Caller,
    changes: tuple[Change, ...],
) -> tuple[str, tuple[str, ...]]:
    """The new run, started, and what the machine lacks for it."""
    core.check_room()
    source_name = core.store.view(source_id).name
    with first_attempts.new_run(core, request.name, f"{source_name[:24]}-clone") as (run, name):
        async with first_attempts.reserved(core, (spec,), caller.environ) as lacking:
            home = with_spec_env(spec, caller)
            check_program(spec, home)
            inexact = "" if needs_no_preflight(spec) else (await preflight(spec, home)).continued(spec)
            order = attempt_order(core.root, run, 1, spec, caller, None)
            origin = Origin("cloned", source_id, source_name, diff=diff_of(changes)[:_MOST_DIFFERENCES])
            made = partial(
                create_run, core.root, core.seals, run, spec, order, rules, name, request.group, origin=origin
            )
            created = await asyncio.to_thread(made)
            first_attempts.begin_first_attempt(core, run, spec, order, created)
    return run.id, (*lacking, *filter(None, (inexact,)))


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
    home = with_script_python(spec, with_spec_env(spec, caller), 1)
    since = await core.provenance.every_difference(run, 1, home, sources_of(spec))
    own = (*_on_its_way(core, run_id, spec), *_weights(core, run_id), *withheld)
    return OriginalLaunch(spec, await asyncio.to_thread(_rules, run), caller, (*own, *since))


def _caller(core: Core, run: RunDir, environ: Mapping[str, str]) -> tuple[Caller, tuple[Change, ...]]:
    """Who launched the first attempt. Secrets that are lost come from the client that asks now; each is a change."""
    caller = core.variables.caller_of(run, 1)
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


def _on_its_way(runs: Runs, run_id: str, first: Spec) -> Iterator[Change]:
    newest = runs.store.run(run_id).spec
    why = "it was changed while it trained; a clone starts with the settings of its beginning"
    for made in () if newest is None else judge_resume(first, newest, ResumeFacts(0)).changes:
        if made.was != made.now:
            yield Change(made.name, made.now, made.was, "note", why)


def _weights(runs: Runs, run_id: str) -> Iterator[Change]:
    for origin in runs.store.view(run_id).origins:
        if origin.kind in ("branch", "imported"):
            was = f"{origin.name} at {origin.checkpoint}" if origin.checkpoint else origin.name
            yield Change("weights", was, "none", "note", "it began with weights; an exact clone begins from scratch")
