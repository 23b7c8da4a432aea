"""Launch: all of the asked runs get a directory and a keeper, or none does and the reason is said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Launched
from mission_tui.ipc.requests import Launch
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.own_limits import said_of_limits
from mission_tui.supervisor.starting.caller import Caller
from mission_tui.supervisor.starting.launching import begin_runs

__all__ = ["launch"]


async def launch(core: Core, request: Launch) -> Launched:
    """Make and start the runs; `Launched` means that they are on disk. Raises `MissionError` with nothing made."""
    caller = Caller(request.python, request.cwd, request.environ, limits=request.limits)
    made, warnings = await begin_runs(core, request.items, caller)
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
