"""Clone: a new run with the settings, the rules and the seed of another, but for what is changed; nothing is learned.

The source is only read, so it may be live. An exact one is as the source began; what is so no longer is accepted first.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.lineage import Origin, diff_of
from mission_tui.fleet.resume import ResumeFacts, judge_resume
from mission_tui.fleet.resume.verdict import Change, ResumeVerdict
from mission_tui.fleet.specs.consistency import cautions
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.replies import Accepted, VerdictReply
from mission_tui.ipc.requests import Clone
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.disk.run_directory import create_run
from mission_tui.supervisor.launchers.local import attempt_order
from mission_tui.supervisor.starting.admission_check import reserved
from mission_tui.supervisor.starting.branching import rules_for
from mission_tui.supervisor.starting.caller import Caller, absolute_paths, check_program, with_spec_env
from mission_tui.supervisor.starting.exact_clone import original_launch
from mission_tui.supervisor.starting.new_run import begin_first_attempt, check_new_names, new_run_dir
from mission_tui.supervisor.starting.preflight import needs_no_preflight, preflight
from mission_tui.supervisor.starting.seeds import with_seed
from mission_tui.supervisor.subject import caller_for
from mission_tui.supervisor.targets import resolve_run

__all__ = ["clone"]

_MOST = 16
"""Differences that the new run remembers as its origin."""


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
    now = with_seed(absolute_paths(change(was, request.assignments), caller.cwd) if request.assignments else was)
    rules = rules_for(core, core.run_dir(run_id), was, now, caller)
    changes = judge_resume(was, now, ResumeFacts(0)).changes
    made, lacking = await _made(core, run_id, request, now, rules, caller, changes)
    note = core.store.view(made).origins[0].sentence
    return Accepted(re=request.id, runs=(made,), notes=(note, *lacking, *cautions(now)))


async def _exactly(core: Core, run_id: str, request: Clone) -> Accepted | VerdictReply:
    if request.assignments:
        raise UsageError("an exact clone has the settings of its run: leave out --set, or --exact")
    begun = await original_launch(core, run_id, request)
    if begun.changes and not request.accept:
        verdict = ResumeVerdict("note", begun.changes)
        return VerdictReply(re=request.id, run=run_id, verdict=verdict, accept_needed=True)
    made, lacking = await _made(core, run_id, request, with_seed(begun.spec), begun.rules, begun.caller, begun.changes)
    said = tuple(f"{it.name}: {it.was} -> {it.now}" for it in begun.changes)
    same = () if said else ("nothing that is recorded of it has changed since",)
    return Accepted(re=request.id, runs=(made,), notes=(*same, *said, *lacking))


async def _made(
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
    async with reserved(core, (spec,), caller.environ) as lacking:
        if request.name is not None:
            check_new_names(core, [request.name])
        home = with_spec_env(spec, caller)
        check_program(spec, home)
        inexact = "" if needs_no_preflight(spec) else (await preflight(spec, home)).continued(spec)
        source_name = core.store.view(source_id).name
        run = new_run_dir(core, request.name or f"{source_name[:24]}-clone")
        order = attempt_order(core.root, run, 1, spec, caller, None)
        origin = Origin("cloned", source_id, source_name, diff=diff_of(changes)[:_MOST])
        name = request.name or run.id[16:]
        made = partial(create_run, core.root, core.seals, run, spec, order, rules, name, None, origin=origin)
        created = await asyncio.to_thread(made)
        begin_first_attempt(core, run, spec, order, created)
    return run.id, (*lacking, *filter(None, (inexact,)))
