"""Attempts on nodes of a Slurm and a Ray: histories with lost and cut off nodes, double starts, clocks that differ,
lost and repeated orders, and engines that are started anew and forget jobs.

As in part `simulator` the supervisor may die at any call. Then everything is whole again and calm for some minutes,
and what a person sees has to be true: what is shown as over trains nowhere, what was acknowledged is on record and was
done, what an engine interrupted goes on, and each run can be resumed or stopped. In some histories both engines are
down once more then, while runs are ended or end by themselves: that is shown before anybody can ask about it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path
from unittest import mock

from msgspec import structs

from mission_tui.errors import MissionError
from mission_tui.fleet.commands import objection
from mission_tui.fleet.events.journal import ENDING, Asked, AttemptEnded, AttemptStarting, FleetEvent
from mission_tui.fleet.specs.spec import LaunchItem, SlurmSpec, Spec
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Act, Launch, Resume, Set
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import read_attempt_spec
from mission_tui.records.runs.layout import supervisor_dir
from mission_tui.supervisor import clock as clock_module
from mission_tui.supervisor.clock import Clock, TimeLimits
from mission_tui.supervisor.ending import leftovers
from mission_tui.supervisor.launchers import ray, slurm
from mission_tui.supervisor.launchers.local import LocalLauncher
from mission_tui.supervisor.launchers.ray import RayLauncher
from mission_tui.supervisor.launchers.slurm import SlurmLauncher
from mission_tui.supervisor.lifecycle import outcome
from mission_tui.supervisor.lifecycle.adoption import adopting, load_ended
from mission_tui.supervisor.request_dispatcher import RequestDispatcher
from mission_tui.supervisor.runs import journal
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.run_directory import half_made, sweep_up
from mission_tui.supervisor.runs.run_on_disk import finish, read_fleet
from mission_tui.supervisor.telemetry_handler import TelemetryHandler
from mission_tui.supervisor.verbs.acts import checkpoint, kill, park, pause, stop
from mission_tui.supervisor.verbs.launch import launch
from mission_tui.supervisor.verbs.resume import resume
from mission_tui.supervisor.verbs.settings import set_
from mission_tui.supervisor.watching import usage
from tests.faults.campaign.part import Part, Tell, Violation, chance, memory_folder, quiet
from tests.faults.parts.simulator import incarnate, mortal
from tests.faults.remote import Engines, RemoteAttempt
from tests.faults.simulated import NoGpu, NoProvenance, SupervisorKilledError, World
from tests.supervisor.conftest import stub_spec

__all__ = ["PART", "as_it_is", "histories"]

ACTS = {"stop": stop, "kill": kill, "pause": pause, "park": park, "checkpoint": checkpoint}
RUNS = 2
CALM_S = 60.0
MOST_CALM_S = 900.0
DOWN_S = 60.0
"""How long no engine answers while runs end; each is shown as ended by then."""

TICK_S = 2.0
"""Of the supervisor's clock: half as many beats, and nothing waits for less."""


class History:
    """What a client has seen of one seed: runs and acknowledged requests, the last of each run in order."""

    def __init__(self, world: World, engines: Engines, root: Path) -> None:
        self.world, self.engines, self.root, self.luck = world, engines, root, engines.luck
        self.runs: list[str] = []
        self.acknowledged: Counter[tuple[str, str]] = Counter()
        self.last: dict[str, str] = {}
        self.core: Core | None = None
        # What was added since has its own luck, so that the same seeds still mean the same accidents.
        self.more_luck = random.Random(f"{self.luck.getstate()[1][:4]}")
        self.set = self.outages = 0
        self.learning_rates: dict[str, set[float]] = {}
        """What each run may train with: what was acknowledged last, or what was asked and never answered."""
        self.asked_at: dict[tuple[str, str], tuple[int, float]] = {}
        """Attempt and time of the last acknowledged pause and checkpoint of each run, while nothing has undone it."""

    async def supervise(self, steps: int) -> Core:
        """A supervisor from its start, with so many requests or accidents; without any until all is settled."""
        core = Core(self.root, {"local": LocalLauncher(self.world), "slurm": SlurmLauncher(), "ray": RayLauncher()})
        self.core = core
        core.machine.gpu = NoGpu()  # type: ignore[assignment]
        core.provenance = NoProvenance()  # type: ignore[assignment]
        # How busy this machine is is nothing to nodes, and looking takes half of a round.
        core.machine.sample = lambda: None  # type: ignore[method-assign]
        core.fleet.started()
        sweep_up(half_made(self.root))
        live, ended = read_fleet(self.root)
        for found in live:
            finish(adopting(core, found))
        for found in ended:
            load_ended(core, found)
        self.world.ears = TelemetryHandler(core)
        beats = asyncio.create_task(
            Clock(core, RequestDispatcher(core), (), lambda: True, TimeLimits(idle_s=float("inf"))).run()
        )
        for _ in range(steps):
            await self._step(core)
            if self.runs and self.more_luck.random() < 0.2:
                await self._set(core, self.more_luck.choice(self.runs))
            await asyncio.sleep(self.luck.choice((0.0, 1.0, 5.0, 15.0, 40.0)))
        if steps == 0:
            await asyncio.sleep(CALM_S)
            await self._settle(core)
            what_else = self.more_luck.random()
            if what_else < 0.25:
                await self._end_unasked(core)
            elif what_else < 0.5:
                await self._ask_what_stays(core)
            await self._settle(core)
        if beats.done():
            beats.result()
        beats.cancel()
        return core

    async def _settle(self, core: Core) -> None:
        until = self.world.now + MOST_CALM_S
        while self.world.now < until and list(unsettled(self, core)):  # noqa: ASYNC110 - it passes the world's time
            await asyncio.sleep(10.0)

    async def _step(self, core: Core) -> None:
        often = ("launch", "resume", "resume", "checkpoint", "cut", "cut", "double")
        what = self.luck.choice((*often, "dies", "restart", "clock", *ACTS)) if self.runs else "launch"
        run = self.luck.choice(self.runs) if self.runs else ""
        with suppress(MissionError):
            if what == "launch" and len(self.runs) < RUNS:
                items = (LaunchItem(spec=spec_for(self.luck.choice(("slurm", "ray")))),)
                request = Launch(id=1, items=items, cwd="/", python="/usr/bin/python3", environ={})
                self.runs += [view.id for view in (await launch(core, request)).runs]
            elif what in ("cut", "dies"):
                alive = [it.node for it in self.engines.living(run)] or self.engines.nodes
                self.engines.lose(
                    self.luck.choice(alive), self.luck.choice((4.0, 30.0, 90.0)) if what == "cut" else None
                )
            elif what == "double":
                for job in self.engines.jobs:
                    if job.run.id == run and not job.over:
                        self.engines.place(job, again=True)
            elif what == "restart":
                self.engines.restart(self.luck.choice((2.0, 20.0, 60.0)))
            elif what == "clock":
                self.world.offset += self.luck.choice((-300.0, 300.0))
            elif what == "resume":
                before = self.last.get(run, "")
                paused = self.asked_at.pop((run, "pause"), (0, 0.0))
                # One whose answer never comes, because the supervisor dies, may have been carried out.
                self.last[run] = what
                try:
                    reply = await resume(core, Resume(id=1, run=run, accept=True))
                except MissionError:
                    self.last[run], self.asked_at[run, "pause"] = before, paused
                    raise
                self._acknowledge(run, what, hasattr(reply, "runs"))
            elif what in ACTS:
                await self._act(core, run, what)

    async def _act(self, core: Core, run: str, verb: str) -> None:
        place = (core.store.run(run).journal.attempt, self.world.now)
        accepted = await ACTS[verb](core, Act(id=1, verb=verb, runs=(run,)))  # type: ignore[arg-type]
        self._acknowledge(run, verb, run in accepted.runs)
        if run in accepted.runs:
            self.asked_at[run, verb] = place

    async def _ask_what_stays(self, core: Core) -> None:
        """Runs that nothing else happens to are asked for what the attempt does and stays, some as they are cut off."""
        for run in self.runs:
            alive = self.engines.living(run)
            verb = self.more_luck.choice(("pause", "checkpoint", "set"))
            if len(alive) == 1 and core.store.view(run).state == "running":
                if self.more_luck.random() < 0.3:
                    self.engines.lose(alive[0].node, 4.0)
                with suppress(MissionError):
                    await (self._set(core, run) if verb == "set" else self._act(core, run, verb))
        await asyncio.sleep(CALM_S / 2)

    async def _set(self, core: Core, run: str) -> None:
        rates = self.learning_rates.setdefault(run, {stub_spec().ppo.learning_rate})  # type: ignore[arg-type]
        rate = round(self.more_luck.uniform(1e-4, 4e-4), 9)
        try:
            words = (f"ppo.learning_rate={rate}",)
            # One whose answer never comes, because the supervisor dies, may have been carried out.
            rates.add(rate)
            reply = await set_(core, Set(id=1, run=run, assignments=words, accept=True))
        except MissionError:
            rates.remove(rate)
            return
        if isinstance(reply, Accepted):
            self.learning_rates[run] = {rate}
            self.set += 1
        else:
            rates.remove(rate)

    async def _end_unasked(self, core: Core) -> None:
        """No engine answers, and each run that trains is ended or finishes: its own files say so, and are believed."""
        self.outages += 1
        self.engines.down_until = self.world.now + DOWN_S
        asked = {}
        for run in self.runs:
            alive = self.engines.living(run)
            how = self.more_luck.choice(("stop", "kill", "finish"))
            if len(alive) != 1 or alive[0].job.over or core.store.view(run).state != "running":
                continue
            if how == "finish":
                alive[0].finishing = True
            else:
                await self._act(core, run, how)
            asked[run] = {"stop": "stopped", "kill": "killed", "finish": "finished"}[how]
        await asyncio.sleep(DOWN_S - 5.0)
        for run, outcome_asked in asked.items():
            view = core.store.view(run)
            if view.outcome != outcome_asked:
                self.world.wrong.append(
                    f"{run} was to be {outcome_asked} while its engine was down, and is {view.state} {view.outcome}"
                )
        await asyncio.sleep(CALM_S)

    def _acknowledge(self, run: str, verb: str, accepted: bool) -> None:
        self.acknowledged[run, verb] += accepted
        if accepted and (verb == "resume" or verb in ENDING):
            self.last[run] = verb


def spec_for(launcher: str) -> Spec:
    """What every run here is of: it goes on by itself after its node was lost."""
    spec = stub_spec()
    run = structs.replace(spec.run, launcher=launcher, grace_s=5.0)
    return structs.replace(spec, run=run, slurm=SlurmSpec(cpus=1))


def unsettled(history: History, core: Core) -> Iterator[Violation]:
    """What is still on its way, or shown other than it is."""
    for run in history.runs:
        view = core.store.view(run)
        alive = history.engines.living(run)
        if view.state in ("ended", "parked") and alive:
            yield f"{run} is shown as {view.state} and attempt {alive[0].number} trains"
        if view.state not in ("ended", "parked") and (len(alive) != 1 or alive[0].number != view.attempt):
            yield f"{run} is shown as {view.state} in attempt {view.attempt}, and {[it.number for it in alive]} train"
        if any(attempt.node.cut for attempt in alive):
            yield f"{run} trains on a node that is still cut off"
        if view.state in ("starting", "stopping", "queued"):
            yield f"{run} is still {view.state}: {view.cause}"
        if view.state in ("ended", "parked") and not view.cause:
            yield f"{run} ended without a cause"
        if all(objection(verb, view) for verb in ("resume", "stop", "kill")):
            yield f"{run} is {view.state}, and nothing can be done about it"


def as_it_is(_engines: Engines) -> AbstractContextManager[object]:
    """Nothing is wrong on purpose."""
    return nullcontext()


def histories(
    rounds: Iterable[int],
    seed: int,
    tell: Tell,
    plant: Callable[[Engines], AbstractContextManager[object]] = as_it_is,
) -> Iterator[Violation]:
    """What `rounds` find. `plant` makes a mistake on purpose, for as long as its context lasts."""
    for index in rounds:
        with quiet(), memory_folder() as root:
            try:
                found = list(_history(chance(seed, index), root, tell, plant))
            except (Exception, SupervisorKilledError) as error:  # noqa: BLE001 - any error is what is looked for
                found = [f"{type(error).__name__}: {error}"]
        yield from (f"seed {index}: {violation}" for violation in found)


def _history(
    luck: random.Random, root: Path, tell: Tell, plant: Callable[[Engines], AbstractContextManager[object]]
) -> Iterator[Violation]:
    world = World(luck)
    engines = Engines(world, luck)
    history = History(world, engines, root)
    supervisor_dir(root).mkdir()
    with ExitStack() as machine:
        machine.callback(engines.close)
        machine.enter_context(plant(engines))
        machine.enter_context(mock.patch.object(journal, "AppendLog", mortal(world)))
        machine.enter_context(mock.patch.object(clock_module, "TICK_S", TICK_S))
        machine.enter_context(mock.patch.object(slurm, "call", engines.command))
        machine.enter_context(mock.patch.object(ray, "call", engines.rest))
        machine.enter_context(mock.patch("mission_tui.fence._now", world.monotonic))
        # Nothing here outlives the round, and no power is cut.
        for name in ("fsync", "fdatasync"):
            machine.enter_context(mock.patch(f"os.{name}"))
        for module in (outcome, leftovers):
            machine.enter_context(mock.patch.object(module, "find_leftovers", return_value=[]))
        for name in ("process_ids", "live_roots", "write_live_count"):
            machine.enter_context(mock.patch.object(usage, name, return_value=()))
        for _ in range(luck.randrange(1, 3)):
            world.fatal_in = luck.choice((None, luck.randrange(60), luck.randrange(400)))
            tell("supervisors killed at a call", int(not incarnate(history, luck.randrange(4, 14))))
        world.fatal_in = None
        engines.calm = True
        incarnate(history, 0)
        assert history.core is not None
        yield from world.wrong
        yield from unsettled(history, history.core)
        yield from _on_record(history, history.core)
        yield from _done(history, history.core)
        tell("requests acknowledged", history.acknowledged.total())
        tell("attempts", len([it for it in engines.attempts if it.log is not None]))
        tell("nodes lost or cut off", engines.lost)
        tell("engines started anew", engines.restarts)
        tell("double starts", engines.doubles)
        tell("settings changed", history.set)
        tell("ends while no engine answered", history.outages)


def _on_record(history: History, core: Core) -> Iterator[Violation]:
    for run in history.runs:
        view = core.store.view(run)
        events, damage = read_all(core.run_dir(run).events, FleetEvent)
        if damage or [event.seq for event in events] != list(range(1, len(events) + 1)):
            yield f"{run}: its journal is not whole: {damage}"
        begun = [event.attempt for event in events if isinstance(event, AttemptStarting)]
        if begun != sorted(set(begun)):
            yield f"{run}: an attempt began twice: {begun}"
        ended = Counter(event.attempt for event in events if isinstance(event, AttemptEnded))
        yield from (f"{run}: attempt {attempt} ended {many} times" for attempt, many in ended.items() if many > 1)
        asked = Counter(event.verb for event in events if isinstance(event, Asked))
        for (named, verb), count in history.acknowledged.items():
            on_record = asked[verb] + (len(begun) - 1 if verb == "resume" else 0)  # type: ignore[index]
            if named == run and on_record < (min(count, 1) if verb in ("stop", "kill", "park") else count):
                yield f"{run}: {verb} was acknowledged {count} times and is on record {on_record} times"
        if history.last.get(run) in ENDING and view.state not in ("ended", "parked"):
            yield f"{run} is {view.state}, and {history.last[run]} was acknowledged last"


def _done(history: History, core: Core) -> Iterator[Violation]:
    """What was acknowledged was done by whoever trains, where that is the attempt that was asked; what was set, by
    every later one too. What an engine interrupted goes on, and no further attempt is lost before it begins.
    """
    for run in history.runs:
        view = core.store.view(run)
        over = [event for event in read_all(core.run_dir(run).events, FleetEvent)[0] if isinstance(event, AttemptEnded)]
        if view.state == "ended" and over and over[-1].interrupted and history.last.get(run) not in ENDING:
            yield f"{run}: attempt {over[-1].attempt} was interrupted ({over[-1].interrupted}) and does not go on"
        # One that was forgotten in a queue while no supervisor looked may have been cancelled.
        forgotten = "does not know its job" in (view.cause or "")
        if view.attempt > 1 and view.kind == "start" and not forgotten:
            yield f"{run}: attempt {view.attempt} was lost before it began: {view.cause}"
        for trains in history.engines.living(run):
            for verb, what in (("pause", trains.paused), ("checkpoint", None)):
                attempt, at = history.asked_at.get((run, verb), (0, 0.0))
                done = trains.saved_asked_at >= at if what is None else what
                if attempt == trains.number and not done:
                    yield f"{run}: {verb} was acknowledged in attempt {attempt} and never done"
            rates = history.learning_rates.get(run)
            if rates is not None and _learning_rate(trains) not in rates:
                yield f"{run}: attempt {trains.number} trains with {_learning_rate(trains)}, and {rates} was set"


def _learning_rate(trains: RemoteAttempt) -> float:
    if trains.set is not None:
        return float(trains.set.assignments[0].partition("=")[2])
    return float(read_attempt_spec(trains.run, trains.number).ppo.learning_rate)  # type: ignore[arg-type]


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    return histories(rounds, seed, tell)


PART = Part("remote", ("K9", "K10", "K11", "K12", "K15", "K16"), 20_000, _run)
