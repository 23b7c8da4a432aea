"""Quote: what a launch would cost, and what it would be told, before anything of it is made."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import structs

from mission_tui.errors import MissionError
from mission_tui.fleet.capacity.admission import Admit, Wait
from mission_tui.fleet.capacity.cost import Cost, Pace, cost_of
from mission_tui.fleet.capacity.headroom import QueuedRun
from mission_tui.fleet.specs.consistency import cautions
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.replies import Quoted
from mission_tui.ipc.requests import LaunchItem, Quote
from mission_tui.supervisor.catalog import resolve_run
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.starting.caller import VISIBLE, Caller, absolute_paths, check_program, with_spec_env
from mission_tui.supervisor.starting.launching import check_new, check_new_names, foreseen
from mission_tui.supervisor.starting.run_queue import gain_shortage, waits_for_others
from mission_tui.supervisor.starting.throughput_estimate import estimate_paces

__all__ = ["quote"]


async def quote(core: Core, request: Quote) -> Quoted:
    """The costs of every item, and why all would be refused, if they would. An environment is not tried here.

    Raises `MissionError` only where nothing can be said at all: the machine's own limits cannot be read.
    """
    await core.measure()
    items = [structs.replace(item, spec=absolute_paths(item.spec, request.cwd)) for item in request.items]
    specs = [item.spec for item in items]
    caller = Caller(request.python, request.cwd, request.environ, limits=request.limits)
    visible = caller.environ.get(VISIBLE)
    warnings: tuple[str, ...] = ()
    held: Sequence[str] = ()
    refused = ""
    try:
        core.check_room()
        check_new_names(core, [item.name for item in items if item.name is not None])
        held = [_held(core, item) for item in items]
        for spec in specs:
            check_program(spec, with_spec_env(spec, caller))
        warnings = check_new(core, specs, visible)
    except MissionError as error:
        refused = str(error)
    warnings = (*warnings, *(f"{spec.preset}: {caution}" for spec in specs for caution in cautions(spec)))
    decided = foreseen(core, specs, visible, held)
    costs = tuple(
        _cost(core, spec, *taken, pace)
        for spec, taken, pace in zip(specs, decided, estimate_paces(core, specs), strict=True)
    )
    return Quoted(re=request.id, costs=costs, refused=refused, warnings=tuple(dict.fromkeys(warnings)))


def _held(core: Core, item: LaunchItem) -> str:
    """What the run would wait for beside room. Raises `UsageError` for a run to follow that is not there."""
    waits = waits_for_others(core, tuple(resolve_run(core, ref) for ref in item.after))
    gain = item.spec.keep.limits.marginal_gain
    if waits or gain is None:
        return waits
    return gain_shortage(core, gain, time.time()) or ""


def _cost(core: Core, spec: Spec, run: QueuedRun, turn: Admit | Wait, pace: Pace | None) -> Cost:
    uuids = [gpu.uuid for gpu in core.gpu.gpus]
    gpu = uuids.index(turn.gpu) if isinstance(turn, Admit) and turn.gpu in uuids else None
    waits = turn.why if isinstance(turn, Wait) else ""
    return cost_of(run.claim, core.peaks.of(spec), pace, gpu=gpu, waits=waits)
