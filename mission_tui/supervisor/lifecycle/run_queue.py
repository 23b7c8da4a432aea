"""The queue: a new run begins when it is its turn, by `fleet.capacity.admission`, and is told what it waits for.

Nothing of this is written down: the run is on disk without an attempt, so the next supervisor holds it back as well. It
also waits for the runs that it was launched to follow, however they end, and where it asks for a marginal gain until
the one that joined last is measured: so the queue stops by itself where the machine is full.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import assert_never

from msgspec import structs

from mission_tui.errors import PresetError
from mission_tui.fleet.capacity.admission import Admit, Wait, decide_queue, listed
from mission_tui.fleet.capacity.headroom import MachineLimits, QueuedRun
from mission_tui.fleet.events.journal import ENDING
from mission_tui.fleet.events.marginal_gain import CONCLUSIVE, MarginalGain
from mission_tui.fleet.events.outcome import Failed, Killed, outcome_word
from mission_tui.fleet.events.processes import WaitSeen
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.supervisor.lifecycle.capacity import claims_of, headroom_now, queued_run
from mission_tui.supervisor.lifecycle.outcome import abandon
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.restart_rules import due_restarts

HELD = "waits until nobody holds its lease: a process that is not known here has it"
JUST_BEGUN_S = 10.0
"""One that began so lately was not looked at yet."""


def must_wait(core: Core, run: LiveRun, order: LaunchOrder, turn: Callable[[], None]) -> bool:
    """Whether the run that was never begun has to wait; `turn` is what begins it then."""
    if run.attempt > 0:
        return False
    run.enqueue(order, turn)
    if core.store.run(run.id).journal.asked & ENDING:
        return True
    if not core.is_free(run.id):
        core.apply(run.id, WaitSeen(HELD))
        return True
    match _decided(core, time.time()).get(run.id, Admit()):
        case Wait(why):
            core.apply(run.id, WaitSeen(why))
            return True
        case Admit(gpu):
            run.leave_queue(gpu)
            return False
        case other:
            assert_never(other)


def why_it_waits(core: Core, run_id: str, now: float) -> str:
    """What keeps the restart that is due at unix time `now` from beginning; empty when nothing does."""
    turn = _decided(core, now).get(run_id, Admit())
    return turn.why if isinstance(turn, Wait) else ""


class RunQueue:
    """Polled once a second: reports what each queued run waits for, ends those ended while queued, starts those
    admitted.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._beginning: asyncio.Task[None] | None = None

    def poll(self, now: float) -> None:
        """At unix time `now`."""
        core = self._core
        waiting = [run for run in core.live.values() if run.turn is not None]
        for run in waiting:
            if core.store.run(run.id).journal.asked & ENDING:
                run.leave_queue()
                abandon(core, run, Killed(checkpoint=None, cause="taken from the queue on request; it never began"))
        if not waiting or (self._beginning is not None and not self._beginning.done()):
            return
        decided = _decided(core, now)
        for run in waiting:
            turn = decided.get(run.id)
            if run.id in core.live and isinstance(turn, Wait):
                core.apply(run.id, WaitSeen(turn.why))
        ready = [run_id for run_id, turn in decided.items() if isinstance(turn, Admit)]
        # What it would take is not known; its trainer says what is wrong with its spec.
        ready += [run.id for run in waiting if run.spec is None]
        ready = [run_id for run_id in ready if run_id in core.live]
        if ready:
            self._beginning = asyncio.create_task(self._begin(ready), name="turns")
            core.duties.follow("beginning queued runs", self._beginning)

    async def _begin(self, ready: list[str]) -> None:
        """Begin them while no other supervisor gives anything away; each is decided once more, by what that left."""
        core = self._core
        async with core.machine.other_supervisors.exclusive(partial(claims_of, core)):
            for run_id in ready:
                run = core.live.get(run_id)
                turn = None if run is None else run.turn
                if turn is not None:
                    turn()


def _decided(core: Core, now: float) -> dict[str, Admit | Wait]:
    """What becomes of every run in line, in its order; one whose spec cannot be read is not among them."""
    line = queued_runs(core, now)
    if not line:
        return {}
    try:
        caps, fault = core.machine.limits.read(), ""
    except PresetError as error:
        caps, fault = MachineLimits(), f"waits until it is known what runs may take: {error}"
    return {run.id: Wait(fault) for run in line} if fault else decide_queue(line, headroom_now(core, caps))


def queued_runs(core: Core, now: float) -> list[QueuedRun]:
    """The new runs that wait here, and the restarts that are due at unix time `now`."""
    queued = [(run.id, run.spec, run.visible_gpus) for run in core.live.values() if run.turn is not None]
    restarts = [(run_id, core.store.run(run_id).spec, None) for run_id in due_restarts(core, now)]
    known: list[tuple[str, Spec | None, str | None]] = [*queued, *restarts]
    return [_queued(core, run_id, spec, visible, now) for run_id, spec, visible in known if spec is not None]


def _queued(core: Core, run_id: str, spec: Spec, visible: str | None, now: float) -> QueuedRun:
    journal, gain = core.store.run(run_id).journal, spec.keep.limits.marginal_gain
    held = waits_for_others(core, journal.after) if journal.attempt == 0 else ""
    if not held and not core.is_free(run_id):
        held = HELD
    if not held:
        held = group_shortage(core, run_id, spec, now)
    if not held and gain is not None and core.launcher_for(spec).can.here:
        held = gain_shortage(core, gain, now) or ""
    if not held and journal.branch_of is not None and core.launcher_for(spec).can.here:
        held = branch_shortage(core, run_id, spec)
    held = held or core.variables.why_it_waits(run_id)
    run = queued_run(core, run_id, journal.name, spec, visible, journal.created_t, held)
    return (
        run if journal.priority is None else replace(run, limits=structs.replace(run.limits, priority=journal.priority))
    )


def waits_for_others(runs: Runs, after: tuple[str, ...]) -> str:
    """Which of the runs `after` has not ended yet, in a sentence; empty when all have."""
    for run_id in after:
        run = _known(runs, run_id)
        if run is not None and run.state != "ended":
            standing = ", which is parked" if run.state == "parked" else ""
            return f"waits until {run.journal.name} has ended{standing}"
    return ""


def ends_of_others(runs: Runs, after: tuple[str, ...]) -> tuple[str, ...]:
    """How each of the runs `after` ended, in words."""
    return tuple(_end(run_id, _known(runs, run_id)) for run_id in after)


def _known(runs: Runs, run_id: str) -> RunHistory | None:
    try:
        return runs.store.run(run_id)
    except KeyError:
        return None


def _end(run_id: str, run: RunHistory | None) -> str:
    outcome = None if run is None else run.journal.outcome
    if run is None or outcome is None:
        return f"{run_id} was removed"
    kind = f" ({outcome.kind})" if isinstance(outcome, Failed) else ""
    return f"{run.journal.name} {outcome_word(outcome)}{kind}"


def group_shortage(core: Core, run_id: str, spec: Spec, now: float) -> str:
    """Why a run does not begin at unix time `now` beside those of its group, in the order of their launch; empty when
    it may.

    Without a number of its own (`group_runs`) a group has as many live as find cores that no run keeps busy, and one
    of it lives however busy they are. That is for first attempts: what has trained before goes on at once.
    """
    journal, most = core.store.run(run_id).journal, spec.keep.limits.group_runs
    group = journal.group
    others = [core.store.run(it) for it in core.live if it != run_id]
    live = [it for it in others if group and it.journal.group == group and it.journal.attempt]
    ahead = [] if group is None or most is None else _ahead_in_group(core, run_id, group, now)
    if len(live) + len(ahead) < (most or 1):
        return ""
    names = listed([it.journal.name for it in live])
    are = f"{names} {'is' if len(live) == 1 else 'are'} live"
    if most is not None:
        if len(live) < most:
            first = listed([it.journal.name for it in ahead])
            are = f"{first} come{'s' if len(ahead) == 1 else ''} first" + (f", {are}" if live else "")
        return f"waits for its group: {are}, and keep.limits.group_runs (launch -j) allows {most} of {group} at once"
    if journal.attempt or not core.launcher_for(spec).can.here or core.store.run(run_id).journal.branch_of is not None:
        return ""
    headroom = headroom_now(core, core.machine.limits.read())
    claim = queued_run(core, run_id, "", spec, None, 0.0).claim
    if headroom.cores_busy + claim.cores <= headroom.cores:
        return ""
    busy = f"runs keep {min(headroom.cores, headroom.cores_busy)} of {headroom.cores} busy"
    more = f"`set {group} keep.limits.group_runs=N` (launch -j N) lets N share them"
    return f"waits for {_cores(claim.cores)}, so that all run at full speed: {busy}, {are}; {more}"


def _ahead_in_group(core: Core, run_id: str, group: str, now: float) -> list[RunHistory]:
    """Who of the `group` waits for nothing but its turn too, and was launched before `run_id`."""
    own = core.store.run(run_id).journal
    waiting = [run.id for run in core.live.values() if run.turn is not None]
    runs = [core.store.run(it) for it in (*waiting, *due_restarts(core, now)) if it != run_id and core.is_free(it)]
    return [
        it
        for it in runs
        if it.journal.group == group
        and (it.journal.created_t, it.id) < (own.created_t, run_id)
        and it.id not in core.variables.lacking
        and not (it.journal.attempt == 0 and waits_for_others(core, it.journal.after))
    ]


def gain_shortage(core: Core, limit: float, now: float) -> str | None:
    """Why a run that asks for `limit` (a share) does not begin at unix time `now`; None when it may."""
    live = [core.store.run(run_id) for run_id in core.live]
    training = [run for run in live if run.journal.attempt and run.journal.outcome is None and not run.journal.held]
    fresh = (run.id for run in training if now - (run.journal.started_t or 0.0) < JUST_BEGUN_S)
    if (unknown := next((run_id for run_id in (*core.machine.unmeasured, *fresh)), None)) is not None:
        return f"waits until it is known what {core.name_of(unknown)} brings (keep.limits.marginal_gain)"
    last = next((paid for paid in core.store.snapshot(now).paid if _says(paid.payoff)), None)
    if last is None or not _is_little(last.payoff, limit) or _fewer(training, last.payoff):
        return None
    brought, asked = 100.0 * (last.payoff.gain or 0.0), 100.0 * limit
    return (
        f"waits for a run to end: {last.name} was the last to join and brought {brought:+.0f} %, "
        f"keep.limits.marginal_gain asks for {asked:+.0f} %"
    )


def branch_shortage(core: Core, run_id: str, spec: Spec) -> str:
    """Why a branch of a trial does not begin: the cores are the user's. One at a time may take part in full ones."""
    trying = [it for it in core.live if it != run_id and core.store.run(it).journal.branch_of is not None]
    if not any(core.store.run(it).journal.attempt for it in trying):
        return ""
    headroom = headroom_now(core, core.machine.limits.read())
    claim = queued_run(core, run_id, "", spec, None, 0.0).claim
    if headroom.cores_busy + claim.cores <= headroom.cores:
        return ""
    busy = f"runs keep {min(headroom.cores, headroom.cores_busy)} of {headroom.cores} busy"
    return f"waits for {_cores(claim.cores)}: {busy}, and branches of trials share none of them"


def _cores(count: int) -> str:
    return "a core" if count == 1 else f"{count} cores"


def _says(gain: MarginalGain) -> bool:
    return gain.change == "joined" and gain.verdict in (*CONCLUSIVE, "noisy") and gain.high is not None


def _is_little(gain: MarginalGain, limit: float) -> bool:
    """Whether it brought less than `limit`, as far as one can be sure; other programs' doing is nobody's."""
    certainly = gain.elsewhere is None and gain.high is not None and gain.high < limit
    return certainly or (gain.verdict in CONCLUSIVE and gain.gain is not None and gain.gain < limit)


def _fewer(training: list[RunHistory], gain: MarginalGain) -> bool:
    """Whether fewer runs train than did with it: somebody has made room since."""
    return len(training) < gain.others + gain.together
