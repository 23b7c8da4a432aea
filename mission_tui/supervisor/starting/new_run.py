"""A new run, however it is made: a name and an id that nobody has, and the first attempt of a directory on disk."""

from __future__ import annotations

import time
from collections.abc import Iterable

from mission_tui.errors import UsageError
from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Terms
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.layout import RunDir, check_name, new_run_id
from mission_tui.supervisor.attempts import begin, open_live_run
from mission_tui.supervisor.core import Core

__all__ = ["begin_first_attempt", "check_new_names", "new_run_dir"]


def check_new_names(core: Core, names: Iterable[str]) -> None:
    """A name means one live run. Raises `UsageError` for one that is no name, is taken, or is there twice."""
    taken = {core.store.view(run_id).name for run_id in core.live}
    for name in names:
        check_name(name)
        if name in taken:
            raise UsageError(f"the name '{name}' is taken by a live run; choose another, or stop that one first")
        taken.add(name)


def new_run_dir(core: Core, stem: str) -> RunDir:
    """A directory that is not there yet, by this moment and `stem`."""
    while True:
        run = core.run_dir(new_run_id(stem))
        if not run.path.exists():
            return run


def begin_first_attempt(
    core: Core, run_dir: RunDir, spec: Spec, order: LaunchOrder, created: FleetEvent, terms: Terms = AS_IT_WAS
) -> None:
    """Know the run whose directory and first event are on disk, and hand its written order to a keeper."""
    core.add(run_dir, spec)
    core.apply(run_dir.id, created)
    run = open_live_run(core, run_dir, spec)
    core.launched[run.id] = time.monotonic()
    begin(core, run, order, terms=terms)
