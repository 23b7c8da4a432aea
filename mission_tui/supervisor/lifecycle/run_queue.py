"""The queue: a new run begins when it is its turn, by `fleet.capacity.admission`, and is told what it waits for. One
that waits may be given other settings: it then begins as if it had been launched with them.

Nothing of its turn is written down: the run is on disk without an attempt, so the next supervisor holds it back as
well. It also waits for the runs that it was launched to follow, however they end, and where it asks for a marginal gain
until the one that joined last is measured: so the queue stops by itself where the machine is full.

The journal alone has other settings until its turn comes, so that a supervisor that dies in between loses nothing; what
the attempt is then started with is written, and sealed, before it begins. Whose Python, folder and variables it has,
and what it trains on, was settled at the launch and stays.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never

from msgspec import structs
from msgspec.structs import replace

from mission_tui.errors import PresetError, UsageError
from mission_tui.fleet.capacity.admission import (
    Admit,
    Headroom,
    MachineLimits,
    QueuedRun,
    Wait,
    decide_queue,
    listed,
    never_fits,
)
from mission_tui.fleet.comparison_sides import changed_settings
from mission_tui.fleet.events.journal import ENDING, PriorityAsked, SettingsAsked
from mission_tui.fleet.events.marginal_gain import CONCLUSIVE, MarginalGain
from mission_tui.fleet.events.outcome import Failed, Killed, Stopped, outcome_word
from mission_tui.fleet.events.processes import WaitSeen
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.resume.verdict import Change, ResumeVerdict
from mission_tui.fleet.specs.algorithm import learning_table
from mission_tui.fleet.specs.assignment import expand
from mission_tui.fleet.specs.consistency import cautions
from mission_tui.fleet.specs.flat_settings import value_word
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import LaunchItem, Spec, command_words
from mission_tui.records.atomic import storing, write_atomic
from mission_tui.records.runs.attempt import LaunchOrder, spec_document
from mission_tui.supervisor.launchers.order import (
    Caller,
    absolute_paths,
    needs_no_preflight,
    preflight,
    trainer_environ,
)
from mission_tui.supervisor.lifecycle.capacity import check_machine, claims_of, headroom_now, queued_run
from mission_tui.supervisor.lifecycle.outcome import abandon, due_restarts
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.registry import Runs

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
            if asked := core.store.run(run.id).journal.asked & ENDING:
                run.leave_queue()
                ended = Killed if "kill" in asked else Stopped
                abandon(core, run, ended(checkpoint=None, cause="taken from the queue on request; it never began"))
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


def _waits_in_group(spec: Spec, members: int, for_turn: str, for_cores: Callable[[], str]) -> str:
    """Why a run of `spec` does not begin beside `members` of its group that are live or come first; empty when it may.

    Without a number of its own (`group_runs`) a group has as many live as find cores that no run keeps busy, and one
    of it lives however busy they are: `for_cores` says what lacks then.
    """
    most = spec.keep.limits.group_runs
    if members < (most or 1):
        return ""
    return for_cores() if most is None else for_turn


def group_shortage(core: Core, run_id: str, spec: Spec, now: float) -> str:
    """Why a run does not begin at unix time `now` beside those of its group, in the order of their launch; empty when
    it may. First attempts alone wait for cores: what has trained before goes on at once.
    """
    journal, most = core.store.run(run_id).journal, spec.keep.limits.group_runs
    group = journal.group
    others = [core.store.run(it) for it in core.live if it != run_id]
    live = [it for it in others if group and it.journal.group == group and it.journal.attempt]
    ahead = [] if group is None or most is None else _ahead_in_group(core, run_id, group, now)
    first = f"{listed([it.journal.name for it in ahead])} come{'s' if len(ahead) == 1 else ''} first"
    are = f"{listed([it.journal.name for it in live])} {'is' if len(live) == 1 else 'are'} live"
    who = are if most is None or len(live) >= most else f"{first}, {are}" if live else first

    def for_cores() -> str:
        if journal.attempt or not core.launcher_for(spec).can.here or journal.branch_of is not None:
            return ""
        wait = _lacking_cores(headroom_now(core, core.machine.limits.read()), _cores_of(core, spec), AT_FULL_SPEED)
        more = f"`set {group} keep.limits.group_runs=N` (launch -j N) lets N share them"
        return wait and f"{wait}, {are}; {more}"

    for_turn = f"waits for its group: {who}, and keep.limits.group_runs (launch -j) allows {most} of {group} at once"
    return _waits_in_group(spec, len(live) + len(ahead), for_turn, for_cores)


def held_in_groups(core: Core, items: Sequence[LaunchItem], held: Sequence[str]) -> list[str]:
    """What each of `items` would wait for if they were launched now, in this order: what `held` says of it, else its
    turn in its group.
    """
    headroom, waits = headroom_now(core, core.machine.limits.read()), list(held)
    alive = Counter(run.journal.group for run in map(core.store.run, core.live) if run.journal.attempt)
    for at, item in enumerate(items):
        if waits[at]:
            continue
        # Elsewhere no core of this machine is taken, so none lacks.
        cores = _cores_of(core, item.spec) if core.launcher_for(item.spec).can.here else 0
        for_cores = partial(_lacking_cores, headroom, cores, AT_FULL_SPEED, whose="the others")
        most = item.spec.keep.limits.group_runs
        for_turn = f"waits for its group: keep.limits.group_runs (launch -j) allows {most} of it at once"
        members = 0 if item.group is None else alive[item.group]
        waits[at] = _waits_in_group(item.spec, members, for_turn, for_cores)
        if not waits[at]:
            alive[item.group] += 1
            headroom = replace(headroom, cores_busy=headroom.cores_busy + cores)
    return waits


AT_FULL_SPEED = ", so that all run at full speed"


def _cores_of(core: Core, spec: Spec) -> int:
    return queued_run(core, "", "", spec, None, 0.0).claim.cores


def _lacking_cores(headroom: Headroom, cores: int, why: str, whose: str = "runs") -> str:
    """That a run waits for `cores` cores, and `why`; empty where so many are free, or none is wanted."""
    if not cores or headroom.cores_busy + cores <= headroom.cores:
        return ""
    busy = f"{min(headroom.cores, headroom.cores_busy)} of {headroom.cores} busy"
    return f"waits for {'a core' if cores == 1 else f'{cores} cores'}{why}: {whose} keep {busy}"


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
    wait = _lacking_cores(headroom_now(core, core.machine.limits.read()), _cores_of(core, spec), "")
    return wait and f"{wait}, and branches of trials share none of them"


def _says(gain: MarginalGain) -> bool:
    return gain.change == "joined" and gain.verdict in (*CONCLUSIVE, "noisy") and gain.high is not None


def _is_little(gain: MarginalGain, limit: float) -> bool:
    """Whether it surely brought less than `limit`; what other programs did counts against no run."""
    certainly = gain.elsewhere is None and gain.high is not None and gain.high < limit
    return certainly or (gain.verdict in CONCLUSIVE and gain.gain is not None and gain.gain < limit)


def _fewer(training: list[RunHistory], gain: MarginalGain) -> bool:
    """Whether fewer runs train than did with it: somebody has made room since."""
    return len(training) < gain.others + gain.together


PRIORITY = "keep.limits.priority"
_SETTLED = (
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
        if (key := assignment.key) in _SETTLED or key.rpartition(".")[0] in _SETTLED:
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
