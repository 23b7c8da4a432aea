"""What an `Act` asks of live runs (stop, kill, park, pause, freeze, checkpoint), and the shutdown of the supervisor.

A stop saves and ends; a kill loses what was not saved; a parked run has saved, holds nothing and waits to be resumed. A
paused one blocks at its next update boundary and keeps what it holds, GPU memory included; a frozen one stands where it
is, at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Act, Shutdown
from mission_tui.supervisor.ending.freezing import freeze_run
from mission_tui.supervisor.ending.ladder import kill_now, stop_gracefully
from mission_tui.supervisor.lifecycle.attempts import ask_checkpoints
from mission_tui.supervisor.lifecycle.due_restarts import call_off_restarts, waiting_for_restart
from mission_tui.supervisor.runs.core import ON_REQUEST, Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.targets import Objection, live_targets, no_objection


def _to_end(
    runs: Runs, request: Act, detail: Objection = no_objection
) -> tuple[tuple[str, ...], list[LiveRun], list[str]]:
    """The runs that waited for a restart, which is called off; the live runs that are to end; notes. Raises as
    `live_targets`.
    """
    waiting = waiting_for_restart(runs, request.runs)
    live, notes = live_targets(runs, request.runs, request.verb, detail, waiting)
    call_off_restarts(runs, waiting, request.verb)
    return waiting, live, notes


def _accepted(request: Act, runs: Sequence[LiveRun], notes: Sequence[str], waiting: tuple[str, ...] = ()) -> Accepted:
    return Accepted(re=request.id, runs=waiting + tuple(run.id for run in runs), notes=tuple(notes))


async def stop(core: Core, request: Act) -> Accepted:
    """Ask the runs to save and stop; a run that is stopping already goes on doing so, and stays stopped."""
    waiting, runs, notes = _to_end(core, request)
    for run in runs:
        run.end_for_good()
        if "stop" in core.store.run(run.id).journal.asked:
            notes.append(f"{core.store.view(run.id).name} is stopping already")
            continue
        core.record_verb(run, "stop")
        stop_gracefully(core, run)
    return _accepted(request, runs, notes, waiting)


async def kill(core: Core, request: Act) -> Accepted:
    """Kill the runs through their keepers. Asking again kills again."""

    def detail(run: LiveRun) -> str | None:
        if "unverifiable" not in core.store.view(run.id).flags:
            return None
        who = run.launcher.describe(run.job)
        pids = f" ({who})" if who else ""
        return f"its processes{pids} cannot be verified as its own; check them and end them yourself"

    waiting, runs, notes = _to_end(core, request, detail)
    for run in runs:
        core.record_verb(run, "kill")
        kill_now(core, run)
    return _accepted(request, runs, notes, waiting)


async def park(core: Core, request: Act) -> Accepted:
    """Ask the runs to save and make room. A run is parked when its trainer has saved and is gone."""
    waiting, runs, notes = _to_end(core, request)
    for run in runs:
        run.end_for_good()
        core.record_verb(run, "park")
        stop_gracefully(core, run)
    return _accepted(request, runs, notes, waiting)


async def pause(core: Core, request: Act) -> Accepted:
    """Ask the runs to pause. A run is paused when its trainer says so."""
    runs, notes = live_targets(core, request.runs, "pause", _unreached)
    for run in runs:
        core.record_verb(run, "pause")
        run.pause()
    return _accepted(request, runs, notes)


async def freeze(core: Core, request: Act) -> Accepted:
    """Freeze the runs; notes name processes that did not stop. A run is frozen when it was seen to be."""

    def detail(run: LiveRun) -> str | None:
        if run.freezes:
            return "it is frozen"
        return None if run.sighting.trains else "its trainer is not known yet; try again in a moment"

    runs, notes = live_targets(core, request.runs, "freeze", detail)
    for run in runs:
        core.record_verb(run, "freeze")
    for run, stand in zip(runs, await asyncio.gather(*(freeze_run(core, run) for run in runs)), strict=True):
        if stand is not None and stand.running:
            pids = ", ".join(map(str, stand.running))
            notes.append(f"{core.store.view(run.id).name}: processes {pids} did not stop; they stop when they can")
    return _accepted(request, runs, notes)


async def checkpoint(core: Core, request: Act) -> Accepted:
    """Ask the runs for a checkpoint, and wait for what comes of it as long as was asked; it shows in snapshots too."""
    runs, notes = live_targets(core, request.runs, "checkpoint", _unreached)
    outcomes = await ask_checkpoints(core, runs, request.wait_s)
    return Accepted(re=request.id, runs=tuple(run.id for run in runs), notes=tuple(notes), checkpoints=outcomes)


def _unreached(run: LiveRun) -> str | None:
    """Why nobody there can be asked now; None where its trainer can."""
    return None if run.link is not None else "its trainer is not connected; try again in a moment"


ACTS = {"stop": stop, "kill": kill, "pause": pause, "freeze": freeze, "park": park, "checkpoint": checkpoint}
"""The handler of each word that an `Act` may say."""


async def shutdown(core: Core, request: Shutdown) -> Accepted:
    """Leave once the answer is said. With `with_runs`, the answer comes when every run has saved and ended."""
    runs = [run for run in core.live.values() if not (request.with_runs and run.unseen)]
    unseen = [f"{core.name_of(run.id)} goes on: {run.unseen}" for run in core.live.values() if run.unseen]
    if request.with_runs:
        call_off_restarts(core, waiting_for_restart(core, core.store.live_ids()), "stop")
        for run in runs:
            run.end_for_good()
            if "stop" not in core.store.run(run.id).journal.asked:
                core.record_verb(run, "stop")
                stop_gracefully(core, run)
        await asyncio.gather(*(run.gone.wait() for run in runs))
    core.request_exit(ON_REQUEST)
    notes = tuple(unseen) if request.with_runs or not runs else (f"{len(runs)} runs go on",)
    return Accepted(re=request.id, runs=tuple(run.id for run in runs) if request.with_runs else (), notes=notes)
