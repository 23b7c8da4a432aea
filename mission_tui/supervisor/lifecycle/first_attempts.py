"""New runs: whether they may be made at all, and how they are made and started together, all of them or none.

What can never begin is refused, what merely has to wait is not, unless its preset says `keep.limits.queue = false`. A
new run has a name and an id that nobody has, and a seed: one that was not given is drawn before it is made, so that it
is on record and the run can be repeated.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, structs

from mission_tui.errors import MissionError, PresetError, UsageError
from mission_tui.fleet.capacity.admission import Admit, QueuedRun, Wait, decide_queue, never_fits
from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.fleet.launch_plan import check_names
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Terms
from mission_tui.fleet.specs.algorithm import learning_table
from mission_tui.fleet.specs.consistency import cautions, default_threads
from mission_tui.fleet.specs.spec import LaunchItem, Spec
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.code_files import check_rules, kept_rules
from mission_tui.records.runs.layout import STAMP_CHARACTERS, RunDir, new_run_id
from mission_tui.supervisor.launchers.order import (
    VISIBLE,
    Caller,
    absolute_paths,
    attempt_order,
    check_program,
    needs_no_preflight,
    preflight,
    with_spec_env,
)
from mission_tui.supervisor.lifecycle.attempts import begin, open_live_run
from mission_tui.supervisor.lifecycle.capacity import (
    check_machine,
    claims_of,
    coming_claims,
    device_cautions,
    headroom_now,
    queued_run,
)
from mission_tui.supervisor.lifecycle.run_queue import queued_runs
from mission_tui.supervisor.runs import resolve_run
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.machine_state import DECISIVE_S
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.run_directory import create_run, remove_run, rule_files
from mission_tui.supervisor.watching.tracking import check_tracker

_SEEDS = 2**31


class _CreatedRun(Struct, frozen=True):
    """A run directory on disk whose run has not begun."""

    run: RunDir
    spec: Spec
    order: LaunchOrder
    created: FleetEvent


async def begin_runs(
    core: Core, wanted: Sequence[LaunchItem], caller: Caller
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The ids of the new runs, which are on disk, and warnings. Raises `MissionError` with nothing made."""
    if not wanted:
        raise UsageError("nothing to launch: name at least one preset")
    check_names(wanted)
    core.check_room()
    items = [structs.replace(item, spec=absolute_paths(item.spec, caller.cwd)) for item in wanted]
    specs = [item.spec for item in items]
    threads = thread_warnings(core, specs, caller.environ)
    with ExitStack() as names:
        runs = [names.enter_context(new_run(core, item.name, item.spec.preset)) for item in items]
        async with reserved(core, specs, caller.environ) as lacking:
            inexact = [*await _tried(specs, caller), *await device_cautions(core, specs, caller)]
            after = [tuple(resolve_run(core, ref) for ref in item.after) for item in items]
            made = await _made_all(core, items, runs, after, caller)
            for each in made:
                begin_first_attempt(core, each.run, each.spec, each.order, each.created)
    cautioned = (*(f"{spec.preset}: {caution}" for spec in specs for caution in cautions(spec)), *threads)
    return tuple(each.run.id for each in made), tuple(dict.fromkeys((*lacking, *inexact, *cautioned)))


async def _tried(specs: Sequence[Spec], caller: Caller) -> list[str]:
    """Preflight every environment that is not built in, each once; look for commands. Raises `MissionError`.

    Warnings of those whose state was found not to be restored by what they save.
    """
    tried: list[Spec] = []
    warnings: list[str] = []
    for spec in specs:
        home = with_spec_env(spec, caller)
        check_program(spec, home)
        if not needs_no_preflight(spec) and not any(_same_task(spec, other) for other in tried):
            try:
                said = (await preflight(spec, home)).continued(spec)
            except MissionError as error:
                if any(it.preset != spec.preset for it in specs):
                    error.args = (f"{spec.preset}: {error}",)
                raise
            if said:
                warnings.append(f"{spec.preset}: {said}")
            tried.append(spec)
    return warnings


def _same_task(spec: Spec, other: Spec) -> bool:
    """Whether both would be preflighted alike."""
    whose = [(it.run.python, it.run.cwd, it.run.env, it.run.env_file, it.run.pythonpath) for it in (spec, other)]
    return (spec.env, learning_table(spec)) == (other.env, learning_table(other)) and whose[0] == whose[1]


async def _made_all(
    core: Core, items: Sequence[LaunchItem], runs: Sequence[NewRun], after: Sequence[tuple[str, ...]], caller: Caller
) -> list[_CreatedRun]:
    """A directory for every item, or for none, made in a thread: each is several flushes of the disk, and everybody
    else is answered meanwhile. Raises `MissionError`.
    """
    cancelled = threading.Event()
    try:
        return await asyncio.to_thread(_make_all, core, items, runs, after, caller, cancelled)
    except asyncio.CancelledError:
        # This supervisor is leaving. The thread goes on, and the next supervisor would begin what nobody is told of.
        cancelled.set()
        raise


def _make_all(
    core: Core,
    items: Sequence[LaunchItem],
    runs: Sequence[NewRun],
    after: Sequence[tuple[str, ...]],
    caller: Caller,
    cancelled: threading.Event,
) -> list[_CreatedRun]:
    made: list[_CreatedRun] = []
    try:
        for item, (run, name), others in zip(items, runs, after, strict=True):
            spec = with_seed(item.spec)
            order = attempt_order(core.root, run, 1, spec, caller, None)
            rules = rule_files(spec.env, caller.cwd)
            created = create_run(
                core.root, core.seals, run, spec, order, rules, name, item.group, after=others, probe=item.probe
            )
            made.append(_CreatedRun(run, spec, order, created))
            if cancelled.is_set():
                break
    except MissionError:
        _unmake(core, made)
        raise
    if cancelled.is_set():
        _unmake(core, made)
    return made


def _unmake(runs: Runs, made: Sequence[_CreatedRun]) -> None:
    for each in made:
        remove_run(runs.root, each.run)


def with_seed(spec: Spec, *, anew: bool = False) -> Spec:
    """The spec with a seed: its own, or one drawn here if it has none or a fresh one is wanted `anew`.

    A command is told a seed only if somebody gave one: it is not known whether it would use it.
    """
    if spec.run.command is not None or (spec.run.seed is not None and not anew):
        return spec
    return structs.replace(spec, run=structs.replace(spec.run, seed=random.SystemRandom().randrange(_SEEDS)))


class NewRun(NamedTuple):
    """The directory and the name that a run is going to have."""

    dir: RunDir
    name: str


@contextmanager
def new_run(runs: Runs, name: str | None, stem: str) -> Iterator[NewRun]:
    """A directory that is not there yet, by this moment and `name`, or else `stem`. Without a name the run has that of
    its directory. The name is held until the context ends. Raises `UsageError` for one that cannot be had.
    """
    while True:
        run = runs.run_dir(new_run_id(stem if name is None else name))
        given = run.id[STAMP_CHARACTERS:] if name is None else name
        if not run.path.exists() and (name is not None or runs.names.taken_by(given) is None):
            break
    with runs.names.held(given, run.id):
        yield NewRun(run, given)


def begin_first_attempt(
    core: Core,
    run_dir: RunDir,
    spec: Spec,
    order: LaunchOrder,
    created: FleetEvent,
    terms: Terms = AS_IT_WAS,
    checkpoint: str | None = None,
) -> None:
    """Know the run whose directory and first event are on disk, and hand its written order to a keeper."""
    core.add(run_dir, spec)
    core.apply(run_dir.id, created)
    run = open_live_run(core, run_dir, spec)
    core.launched[run.id] = time.monotonic()
    begin(core, run, order, checkpoint=checkpoint, terms=terms)


@asynccontextmanager
async def reserved(core: Core, specs: Sequence[Spec], environ: Mapping[str, str]) -> AsyncIterator[tuple[str, ...]]:
    """Warnings as of `check_new`; while the context lasts every supervisor of the host knows that `specs` come."""
    key, visible = object(), environ.get(VISIBLE)
    await core.machine.measure(DECISIVE_S)
    async with core.machine.other_supervisors.exclusive(partial(claims_of, core)):
        warnings = check_new(core, specs, visible)
        core.machine.other_supervisors.pending[key] = coming_claims(core, specs, visible)
    try:
        yield warnings
    finally:
        del core.machine.other_supervisors.pending[key]


def check_new(core: Core, specs: Sequence[Spec], visible: str | None) -> tuple[str, ...]:
    """Warnings about what the machine lacks for new runs of `specs`. Raises `PresetError` for what cannot begin.

    `visible` is the `CUDA_VISIBLE_DEVICES` of the shell that launches them.
    """
    check_tracker(specs)
    headroom = headroom_now(core, core.machine.limits.read())
    line = [queued_run(core, "", spec.preset, spec, _visible(spec, visible), 0.0) for spec in specs]
    hard = [f"{run.name}: {lack}" for run in line for lack in never_fits(run, headroom)]
    if hard:
        raise PresetError("; ".join(dict.fromkeys(hard)))
    warnings = check_machine(core, specs, visible=visible, waits=True)
    for spec, why in zip(specs, would_wait(core, specs, visible), strict=True):
        if why and not spec.keep.limits.queue:
            raise PresetError(f"{spec.preset} {why}; with keep.limits.queue = true it is queued until then")
    return warnings


def thread_warnings(core: Core, specs: Sequence[Spec], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Warnings for commands that say no number of threads, by what the cores of the machine do now."""
    host = core.machine.host
    seen = round(host.recent[-1] * host.present / 100.0) if host.recent else 0
    busy = max(seen, headroom_now(core, core.machine.limits.read()).cores_busy)
    return tuple(default_threads(specs, environ, host.cores, busy))


def would_wait(core: Core, specs: Sequence[Spec], visible: str | None) -> list[str]:
    """What new runs of `specs`, in this order, would be told to wait for; empty for those that would begin."""
    decided = foreseen(core, specs, visible)
    return [turn.why if isinstance(turn, Wait) else "" for _, turn in decided]


def foreseen(
    core: Core, specs: Sequence[Spec], visible: str | None, held: Sequence[str] = ()
) -> list[tuple[QueuedRun, Admit | Wait]]:
    """What new runs of `specs`, in this order, would take, and what would become of each if it came now.

    `held` says for each what else it waits for, in a sentence; empty for nothing.
    """
    now, why = time.time(), held or [""] * len(specs)
    line = [
        queued_run(core, f"~{at:04}", spec.preset, spec, _visible(spec, visible), now, why[at])
        for at, spec in enumerate(specs)
    ]
    decided = decide_queue([*queued_runs(core, now), *line], headroom_now(core, core.machine.limits.read()))
    return [(run, decided[run.id]) for run in line]


def _visible(spec: Spec, visible: str | None) -> str | None:
    return spec.run.env.get(VISIBLE, visible)


def rules_for(runs: Runs, source: RunDir, was: Spec, now: Spec, caller: Caller) -> list[Path]:
    """The rules as the source's newest attempt had them, unless others are asked for; checked."""
    newest = runs.store.run(source.id).spec or was
    if (now.env.id, now.env.config) == (newest.env.id, newest.env.config) and source.snapshot.is_dir():
        check_rules(source.snapshot)
        return kept_rules(source.snapshot)
    return rule_files(now.env, caller.cwd)
