"""The supervisor's core with another clock and another machine: many short lives, ended by SIGKILL at any call.

A seed gives the requests, the crashes of keepers and trainers, steps of the clock, and the call at which the supervisor
dies. In the end a last supervisor has some minutes to make good what the others left; then files, machine and snapshot
must agree.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

from mission_tui.errors import MissionError
from mission_tui.fleet.events.journal import Asked, AttemptEnded, AttemptStarting, FleetEvent
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.ipc.requests import Act, Launch, Resume
from mission_tui.records.jsonl import AppendLog, read_all
from mission_tui.records.runs.layout import supervisor_dir
from mission_tui.supervisor.clock import Clock, TimeLimits
from mission_tui.supervisor.ending import leftovers
from mission_tui.supervisor.launchers.local import LocalLauncher
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
from tests.faults.campaign.part import Part, Tell, Violation, chance, memory_folder, quiet
from tests.faults.simulated import NoGpu, NoProvenance, SupervisorKilledError, World
from tests.faults.virtual_time import virtual_loop
from tests.supervisor.conftest import stub_spec

__all__ = ["PART", "incarnate", "mortal"]

ACTS = {"stop": stop, "kill": kill, "pause": pause, "park": park, "checkpoint": checkpoint}
MINUTES_S = 240.0
"""Longer than anything that a supervisor waits for."""
RUNS = 3


class SupervisedLife(Protocol):
    """Whose supervisors live one after the other."""

    world: World
    core: Core | None

    def supervise(self, steps: int) -> Coroutine[Any, Any, Core]: ...


class Life:
    """What a client has seen of one seed: runs and acknowledged requests."""

    def __init__(self, world: World, root: Path) -> None:
        self.world, self.root, self.luck = world, root, world.luck
        self.runs: list[str] = []
        self.acknowledged: Counter[tuple[str, str]] = Counter()
        self.core: Core | None = None

    async def supervise(self, steps: int) -> Core:
        """A supervisor from its start, with `steps` requests or accidents; it beats once a second all along."""
        core = Core(self.root, {"local": LocalLauncher(self.world)})
        self.core = core
        core.machine.gpu = NoGpu()  # type: ignore[assignment]
        core.provenance = NoProvenance()  # type: ignore[assignment]
        core.fleet.started()
        sweep_up(half_made(self.root))
        live, ended = read_fleet(self.root)
        for found in live:
            finish(adopting(core, found))
        for found in ended:
            load_ended(core, found)
        self.world.ears = TelemetryHandler(core)
        clock = asyncio.create_task(
            Clock(core, RequestDispatcher(core), (), lambda: True, TimeLimits(idle_s=float("inf"))).run()
        )
        for _ in range(steps):
            await self._step(core)
            await asyncio.sleep(self.luck.choice((0.0, 0.1, 1.0, 7.0)))
        if steps == 0:
            await asyncio.sleep(MINUTES_S)
        if clock.done():
            clock.result()
        clock.cancel()
        return core

    async def _step(self, core: Core) -> None:
        often = ("launch", "launch", "resume", "resume", "pause", "checkpoint")
        what = self.luck.choice((*often, "keeper", "trainer", "clock", *ACTS)) if self.runs else "launch"
        run = self.luck.choice(self.runs) if self.runs else ""
        with suppress(MissionError):
            if what == "launch" and len(self.runs) < RUNS:
                request = Launch(
                    id=1, items=(LaunchItem(spec=stub_spec()),), cwd="/", python="/usr/bin/python3", environ={}
                )
                self.runs += [view.id for view in (await launch(core, request)).runs]
            elif what == "clock":
                self.world.offset += self.luck.choice((-3600.0, 3600.0, 86400.0 * 365))
            elif what in ("keeper", "trainer"):
                self._accident(what, run)
            elif what == "resume" and run:
                reply = await resume(core, Resume(id=1, run=run, accept=True))
                self.acknowledged[run, what] += 1 if hasattr(reply, "runs") else 0
            elif what in ACTS and run:
                accepted = await ACTS[what](core, Act(id=1, verb=what, runs=(run,)))  # type: ignore[arg-type]
                self.acknowledged[run, what] += run in accepted.runs

    def _accident(self, what: str, run: str) -> None:
        for training in self.world.trainings:
            if training.run.id == run and not training.body.dead and training.log is not None:
                if what == "keeper":
                    training.keeper.hear(signal.SIGKILL)
                else:
                    training.crash()


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    for index in rounds:
        with quiet(), memory_folder() as root:
            try:
                found = list(_life(chance(seed, index), root, tell))
            except (Exception, SupervisorKilledError) as error:  # noqa: BLE001 - any error is what is looked for
                found = [f"{type(error).__name__}: {error}"]
        yield from (f"seed {index}: {violation}" for violation in found)


def _life(luck: random.Random, root: Path, tell: Tell) -> Iterator[Violation]:
    world = World(luck)
    life = Life(world, root)
    supervisor_dir(root).mkdir()
    with ExitStack() as machine:
        machine.callback(world.bury)
        machine.enter_context(mock.patch.object(journal, "AppendLog", mortal(world)))
        for module in (outcome, leftovers):
            machine.enter_context(mock.patch.object(module, "find_leftovers", return_value=[]))
        for _ in range(luck.randrange(1, 4)):
            world.fatal_in = luck.choice((None, luck.randrange(40), luck.randrange(400)))
            tell("supervisors killed at a call", int(not incarnate(life, luck.randrange(4, 20))))
        world.fatal_in = None
        incarnate(life, 0)
        assert life.core is not None
        yield from world.wrong
        yield from _disagreements(life, life.core)
        tell("requests acknowledged", life.acknowledged.total())
        tell("attempts", len(world.trainings))


def incarnate(life: SupervisedLife, steps: int) -> bool:
    """One supervisor's life; false when it was killed at a call."""
    with virtual_loop(life.world) as loop:
        task = loop.create_task(life.supervise(steps))
        try:
            loop.run_until_complete(task)
        except SupervisorKilledError:
            if task.done():
                task.exception()
            return False
        finally:
            # As SIGKILL leaves it: nothing is awaited, files are closed by whoever held them.
            life.world.fatal_in = None
            life.world.drop_links()
            left = asyncio.all_tasks(loop)
            for duty in left:
                duty.cancel()
            # The end of `task` may have been under way when something else killed it; who waited for that dies too.
            with suppress(RuntimeError, SupervisorKilledError):
                loop.run_until_complete(asyncio.sleep(0))
            while not all(duty.done() for duty in left):
                with suppress(SupervisorKilledError):
                    loop.run_until_complete(asyncio.wait(left))
            if life.core is not None:
                life.core.fleet._log.close()
                for run in life.core.live.values():
                    run.release()
    return True


def mortal(world: World) -> type[AppendLog]:
    class Mortal(AppendLog):
        """The supervisor's journals: it may be killed before a line is written, or right after."""

        def append(self, make: Any) -> Any:
            world.call()
            record = super().append(make)
            world.call()
            return record

    return Mortal


def _disagreements(life: Life, core: Core) -> Iterator[Violation]:
    for run in life.runs:
        view = core.store.view(run)
        alive = [it for it in life.world.trainings if it.run.id == run and not (it.body.dead and it.keeper.dead)]
        if (view.state in ("ended", "parked", "queued")) == bool(alive):
            yield f"{run} is shown as {view.state} with {len(alive)} attempts alive after minutes"
        if view.state in ("starting", "stopping", "queued"):
            yield f"{run} is still {view.state} after minutes"
        if view.state == "ended" and not (view.outcome and view.cause):
            yield f"{run} ended without a cause"
        events, damage = read_all(core.run_dir(run).events, FleetEvent)
        if damage or [event.seq for event in events] != list(range(1, len(events) + 1)):
            yield f"{run}: its journal is not whole: {damage}"
        begun = [event.attempt for event in events if isinstance(event, AttemptStarting)]
        if len(set(begun)) != len(begun):
            yield f"{run}: an attempt began twice: {begun}"
        ended = Counter(event.attempt for event in events if isinstance(event, AttemptEnded))
        yield from (f"{run}: attempt {attempt} ended {many} times" for attempt, many in ended.items() if many > 1)
        asked = Counter(event.verb for event in events if isinstance(event, Asked))
        for (named, verb), count in life.acknowledged.items():
            on_record = asked[verb] + (len(begun) - 1 if verb == "resume" else 0)  # type: ignore[index]
            if named == run and on_record < (min(count, 1) if verb in ("stop", "kill", "park") else count):
                yield f"{run}: {verb} was acknowledged {count} times and is on record {on_record} times"


PART = Part("simulator", ("S1", "S8"), 20_000, _run)
