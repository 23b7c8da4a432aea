"""Another attempt of a command: by its `run.resume_command`, or from its beginning once a person has said so."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from mission_tui.errors import UsageError
from mission_tui.fleet.resume.verdict import Change, Grade, ResumeVerdict
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import RunSpec, Spec
from mission_tui.fleet.text import clean
from mission_tui.ipc.requests import Resume
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.starting.another_attempt import NextAttempt, warned
from mission_tui.supervisor.starting.caller import absolute_paths, check_program, with_spec_env
from mission_tui.supervisor.starting.variables import left_behind
from mission_tui.supervisor.subject import caller_for

__all__ = ["plan_again"]

_ANEW = Change(
    name="start",
    was="where it ended",
    now="from its beginning",
    grade="warn",
    why="there is no run.resume_command, so the same command runs again; it may overwrite what it wrote before",
    remedy="--set run.resume_command=['CMD', 'ARGS'] says how it goes on",
)


def plan_again(core: Core, run_id: str, spec: Spec, request: Resume) -> NextAttempt:
    """What another attempt of the command of `spec` would be. Raises `MissionError` with nothing started."""
    name = core.store.view(run_id).name
    if request.checkpoint or request.remedies or request.overrides:
        raise UsageError(f"{name} runs a command, which goes on by itself: no checkpoint, remedy or override is for it")
    caller = caller_for(core, run_id, request)
    now = absolute_paths(change(spec, request.assignments), caller.cwd) if request.assignments else spec
    if now.run.command is None:
        raise UsageError(f"{name} runs a command and stays one; launch another run instead")
    check_program(now, with_spec_env(now, caller))
    changes = list(_changes(spec.run, now.run))
    if now.run.resume_command is None:
        changes.append(_ANEW)
    grade: Grade = "warn" if _ANEW in changes else "note" if changes else "safe"
    verdict = warned(ResumeVerdict(grade, tuple(changes)), left_behind(core, run_id, caller, now))
    return NextAttempt(was=spec, now=now, verdict=verdict, caller=caller)


def _changes(was: RunSpec, now: RunSpec) -> Iterator[Change]:
    for name in was.__struct_fields__:
        before, after = getattr(was, name), getattr(now, name)
        if before != after:
            why = "as the next attempt sees it"
            yield Change(f"run.{name}", _said(before), _said(after), "note", why)


def _said(value: object) -> str:
    match value:
        case None:
            return "not set"
        case tuple():
            return clean(shlex.join(map(str, value))) or "none"
        case dict():
            return clean(" ".join(f"{name}={word}" for name, word in value.items())) or "none"
        case _:
            return clean(str(value))
