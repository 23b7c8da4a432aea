"""Other settings for a run that waits in the queue: it begins as if it had been launched with them.

The journal alone has them until its turn comes, so that a supervisor that dies in between loses nothing; what the
attempt is then started with is written, and sealed, before it begins. Whose Python, folder and variables it has, and
what it trains on, was settled at the launch and stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec import structs

from mission_tui.errors import PresetError, UsageError
from mission_tui.fleet.capacity.admission import never_fits
from mission_tui.fleet.compare.differing import changed_settings
from mission_tui.fleet.events.journal import PriorityAsked, SettingsAsked
from mission_tui.fleet.resume.verdict import Change, ResumeVerdict
from mission_tui.fleet.specs.algorithm import learning_table
from mission_tui.fleet.specs.assignment import expand
from mission_tui.fleet.specs.consistency import cautions
from mission_tui.fleet.specs.flat_settings import value_word
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import Spec, command_words
from mission_tui.records.files.atomic import storing, write_atomic
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.spec_file import spec_document
from mission_tui.supervisor.launchers.caller import Caller, absolute_paths, needs_no_preflight, preflight
from mission_tui.supervisor.launchers.order import trainer_environ
from mission_tui.supervisor.lifecycle.capacity import check_machine, headroom_now, queued_run
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun

PRIORITY = "keep.limits.priority"
SETTLED = (
    *(f"run.{name}" for name in ("command", "resume_command", "python", "cwd", "env", "env_file", "pythonpath")),
    *("run.launcher", "run.callbacks", "env.id", "env.config", "env.imports"),
)
"""What the launch has looked at in the launching shell's folder, and copied from there."""


def proposed(core: Core, run: LiveRun, words: Sequence[str]) -> tuple[Spec, ResumeVerdict]:
    """The spec that the queued run would begin with, and what `words` change. Raises `MissionError` as a launch."""
    name, was, order = core.name_of(run.id), core.store.run(run.id).spec, run.order
    if was is None or order is None:
        raise PresetError(f"the spec of {name} cannot be read, so nothing can be changed in it")
    for assignment in next(iter(expand(words)), []):
        if (key := assignment.key) in SETTLED or key.rpartition(".")[0] in SETTLED:
            raise UsageError(
                f"{key} was settled when {name} was launched: `clone {name} --set {key}=...` queues it with another, "
                f"then `kill {name}` takes this one from the queue"
            )
    now = absolute_paths(change(was, words), order.cwd)
    line = queued_run(core, "", name, now, run.visible_gpus, 0.0)
    if hard := list(never_fits(line, headroom_now(core, core.machine.limits.read()))):
        raise PresetError(f"{name}: {'; '.join(dict.fromkeys(hard))}")
    rows = ((row.name, *map(_said, row.values)) for row in changed_settings(was, now))
    return now, ResumeVerdict("note", tuple(Change(name, old, new, "note", "it begins so") for name, old, new in rows))


def _said(value: object) -> str:
    return "not set" if value is None else value_word(value)


async def set_queued(core: Core, run: LiveRun, words: Sequence[str]) -> tuple[str, ...]:
    """Have the queued run begin with `words`; sentences about that. Raises `MissionError`, with nothing changed."""
    was = core.store.run(run.id).spec
    now, verdict = proposed(core, run, words)
    name, order = core.name_of(run.id), run.order
    assert was is not None
    assert order is not None
    warnings = check_machine(core, [now], run, run.visible_gpus, waits=True)
    if (now.env, learning_table(now), now.run) != (was.env, learning_table(was), was.run) and not needs_no_preflight(
        now
    ):
        await preflight(now, Caller.of(order))
        if run.turn is None or core.store.run(run.id).spec != was:
            raise UsageError(f"{name} began, or was changed, while its environment was tried; look at it again")
    asked = partial(SettingsAsked, attempt=0, assignments=tuple(words), changes=verdict.changes)
    core.record_request(run, lambda seq, t: asked(seq, t, total_timesteps=now.run.total_timesteps))
    if now.keep.limits.priority != was.keep.limits.priority:
        # Where it was moved in the line before, that counts.
        core.record_request(run, lambda seq, t: PriorityAsked(seq, t, now.keep.limits.priority))
    core.store.replace_spec(run.id, now)
    run.respecify(now)
    notes = (f"{it.name}: {it.was} -> {it.now} from its start on" for it in verdict.changes)
    return (*notes, *warnings, *cautions(now))


def as_set(core: Core, run: LiveRun, order: LaunchOrder) -> LaunchOrder:
    """The order of a first attempt whose spec was changed while it waited: on disk, and sealed with that spec.

    The order comes first, with the spec that it is going to be of: whatever ends this in between leaves a run that is
    still this user's own. Raises `StorageError`.
    """
    spec = run.spec
    if order.attempt != 1 or spec is None or not core.store.run(run.id).journal.sets:
        return order
    env = order.env | trainer_environ(spec)
    if spec.run.command is not None and spec.run.seed is not None:
        env["MISSION_TUI_SEED"] = str(spec.run.seed)
    argv = order.argv
    if spec.run.command is not None:
        argv = (argv[0], *command_words(spec.run, order.attempt)[1:])
    order = structs.replace(order, argv=argv, env=env, grace_s=spec.run.grace_s)
    own = run.dir.attempt(order.attempt).spec
    document = spec_document(spec)
    with storing(own, "replace"):
        own.unlink(missing_ok=True)
    core.seals.write_order(run.dir, order, coming={own: document})
    write_atomic(own, document)
    return order
