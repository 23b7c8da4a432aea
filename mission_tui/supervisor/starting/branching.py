"""A branch: a new run that begins with the weights of another's checkpoint, whose files it takes along.

The source is only read, so it may be live; the new run stands on its own and outlives the source's directory.
"""

from __future__ import annotations

import asyncio
import shutil
from functools import partial
from pathlib import Path

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.provenance import Origin, diff_of
from mission_tui.fleet.resume.verdict import Terms
from mission_tui.fleet.specs.consistency import violations
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.replies import Accepted, VerdictReply
from mission_tui.ipc.requests import Resume
from mission_tui.plain_files import make_folder
from mission_tui.records.files.storage import storing
from mission_tui.records.runs.checkpoint import DamagedCheckpoint, Manifest, newest_intact, verify_checkpoint
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.spec_file import write_terms
from mission_tui.supervisor.catalog import resolve_run
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.disk.run_directory import create_run
from mission_tui.supervisor.launchers.local import attempt_order
from mission_tui.supervisor.starting.another_attempt import Plan, check_place, damaged_changes, plan_attempt
from mission_tui.supervisor.starting.caller import with_spec_env
from mission_tui.supervisor.starting.interpreter import needs_no_preflight, preflight
from mission_tui.supervisor.starting.launching import (
    begin_first_attempt,
    check_new_names,
    new_run_dir,
    rules_for,
    with_seed,
)
from mission_tui.supervisor.subject import named_checkpoint
from mission_tui.supervisor.targets import require

__all__ = ["branch"]


async def branch(core: Core, request: Resume) -> Accepted | VerdictReply:
    """Make and start the new run; with `check_only`, say what differs. Raises `MissionError` with nothing made."""
    run_id = resolve_run(core, request.run)
    require(core, run_id, "branch")
    source = core.run_dir(run_id)
    damaged: tuple[DamagedCheckpoint, ...] = ()
    if request.checkpoint is not None:
        name = await asyncio.to_thread(named_checkpoint, source, request.checkpoint)
        checkpoint: Manifest | None = await asyncio.to_thread(verify_checkpoint, source.checkpoints / name)
    else:
        checkpoint, damaged = await asyncio.to_thread(newest_intact, source.checkpoints)
    if checkpoint is None:
        raise MissionError(f"cannot branch from {core.store.view(run_id).name}: it has no checkpoint yet")
    plan = await plan_attempt(core, run_id, request, checkpoint, request.assignments)
    lacking = check_place(core, run_id, plan)
    if request.check_only:
        return VerdictReply(
            re=request.id, run=run_id, verdict=plan.verdict, accept_needed=True, checkpoint=checkpoint.name
        )
    for violation in violations(plan.now):
        raise UsageError(f"cannot branch like this: {violation.sentence}")
    if not needs_no_preflight(plan.now):
        await preflight(plan.now, with_spec_env(plan.now, plan.caller))
    made = await _made(core, run_id, request, plan)
    note = (
        f"{core.store.view(made).name} begins with the weights of {core.store.view(run_id).name} at {checkpoint.name}"
    )
    lost = tuple(change.why for change in damaged_changes(checkpoint, damaged))
    passed_over = tuple(each.name for each in damaged)
    return Accepted(re=request.id, runs=(made,), notes=(note, *lost, *lacking), damaged=passed_over)


async def _made(core: Core, source_id: str, request: Resume, plan: Plan) -> str:
    """The new run, started."""
    source_name = core.store.view(source_id).name
    if request.name is not None:
        check_new_names(core, [request.name])
    run = new_run_dir(core, request.name or f"{source_name[:24]}-branch")
    spec = _seeded(plan.now, request.assignments)
    terms = Terms(weights_from=plan.checkpoint.name)
    source = core.run_dir(source_id)
    fill = partial(_take_along, source.checkpoints / plan.checkpoint.name, terms)
    order = attempt_order(core.root, run, 1, spec, plan.caller, None)
    origin = Origin("branch", source_id, source_name, plan.checkpoint.name, diff_of(plan.verdict.changes))
    name, rules = request.name or run.id[16:], rules_for(core, source, plan.was, plan.now, plan.caller)
    made = partial(create_run, core.root, core.seals, run, spec, order, rules, name, None)
    created = await asyncio.to_thread(made, origin=origin, fill=fill)
    begin_first_attempt(core, run, spec, order, created, terms)
    return run.id


def _take_along(checkpoint: Path, terms: Terms, making: RunDir) -> None:
    """The checkpoint's files, read back, and the terms that name them."""
    # First: what is no plain file, or has no end, is not copied at all.
    verify_checkpoint(checkpoint)
    with storing(making.origin, "write"):
        make_folder(making.origin)
        shutil.copytree(checkpoint, making.origin / checkpoint.name, symlinks=True)
    verify_checkpoint(making.origin / checkpoint.name)
    write_terms(making.attempt(1).terms, terms)


def _seeded(spec: Spec, assignments: tuple[str, ...]) -> Spec:
    """A seed of its own, so that the source's episodes are not replayed; one that was asked for stays."""
    if any(word.partition("=")[0].strip() == "run.seed" for word in assignments):
        return spec
    return with_seed(spec, anew=True)
