"""Making and starting runs together: all of them get a directory and a keeper, or none does and the reason is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import structs

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.fleet.specs.consistency import cautions
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.requests import LaunchItem
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.disk.run_directory import create_run, remove_run, rule_files
from mission_tui.supervisor.launchers.local import attempt_order
from mission_tui.supervisor.starting.admission_check import reserved
from mission_tui.supervisor.starting.caller import Caller, absolute_paths, check_program, with_spec_env
from mission_tui.supervisor.starting.new_run import begin_first_attempt, check_new_names, new_run_dir
from mission_tui.supervisor.starting.preflight import needs_no_preflight, preflight
from mission_tui.supervisor.starting.seeds import with_seed
from mission_tui.supervisor.targets import resolve_run

__all__ = ["begin_runs"]


@dataclass(frozen=True, slots=True)
class _Made:
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
    core.check_room()
    items = [structs.replace(item, spec=absolute_paths(item.spec, caller.cwd)) for item in wanted]
    specs = [item.spec for item in items]
    async with reserved(core, specs, caller.environ) as lacking:
        inexact = await _tried(specs, caller)
        check_new_names(core, [item.name for item in items if item.name is not None])
        made = _make_all(core, items, caller)
        for each in made:
            begin_first_attempt(core, each.run, each.spec, each.order, each.created)
    cautioned = (f"{spec.preset}: {caution}" for spec in specs for caution in cautions(spec))
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
            if said := (await preflight(spec, home)).continued(spec):
                warnings.append(f"{spec.preset}: {said}")
            tried.append(spec)
    return warnings


def _same_task(spec: Spec, other: Spec) -> bool:
    """Whether both would be preflighted alike."""
    whose = [(it.run.python, it.run.cwd, it.run.env, it.run.env_file, it.run.pythonpath) for it in (spec, other)]
    return (spec.env, spec.ppo) == (other.env, other.ppo) and whose[0] == whose[1]


def _make_all(core: Core, items: Sequence[LaunchItem], caller: Caller) -> list[_Made]:
    """A directory for every item, or for none. Raises `MissionError`."""
    made: list[_Made] = []
    try:
        for item in items:
            spec = with_seed(item.spec)
            run = new_run_dir(core, item.name or spec.preset)
            order = attempt_order(core.root, run, 1, spec, caller, None)
            rules = rule_files(spec.env, caller.cwd)
            after = tuple(resolve_run(core, ref) for ref in item.after)
            name = item.name or run.id[16:]
            created = create_run(core.root, core.seals, run, spec, order, rules, name, item.group, after=after)
            made.append(_Made(run, spec, order, created))
    except MissionError:
        for each in made:
            remove_run(core.root, each.run)
        raise
    return made
