"""A launcher that is not of this machine: an engine with jobs whose lives a test tells, and no process anywhere.

The engine survives supervisors; each of them has a `ScriptedLauncher` of its own, which knows what its last `refresh`
brought, and finds jobs by their handles.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mission_tui.errors import MissionError
from mission_tui.ipc.telemetry_messages import Order, TrainerHello
from mission_tui.keeper.files import exit_record, write_json
from mission_tui.records.runs.attempt import Handle, LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host.process_files import StopStatus
from mission_tui.supervisor.launchers import NOTHING_SEEN, Capabilities, Job, JobStatus, Occupant, Reached


@dataclass
class EngineJob:
    """One attempt as its engine has it; `asked` is what the engine was told to do to it."""

    run: RunDir
    order: LaunchOrder
    status: JobStatus = NOTHING_SEEN
    asked: list[Literal["stop", "kill"]] = field(default_factory=list)
    digest: str = ""

    def queue(self, why: str) -> None:
        """It waits in the engine's queue."""
        self.status = JobStatus(stage="queued", why=why)

    def cancel(self, why: str) -> None:
        """Somebody takes it out of the engine's queue, by a command of that."""
        self.status = JobStatus(stage="gone", why=why, cancelled=True)

    def begin(self, node: str) -> None:
        """Its trainer runs on a node."""
        self.status = JobStatus(stage="running", node=node, begun=True)

    def suspend(self, why: str) -> None:
        """The engine has its processes stand still."""
        self.status = JobStatus(stage="running", node="n1", begun=True, suspended=why)

    def reach_limit(self, why: str) -> None:
        """The keeper was warned of the time limit, and writes that; what the engine says of such a job is `why`."""
        write_json(self.run.attempt(self.order.attempt).exit, exit_record(self.order.attempt, code=0, asked="limit"))
        self.status = JobStatus(stage="gone", begun=True, why=why)

    def end(self, code: int) -> None:
        """The keeper on the node writes how it ended, and the engine lets the job go."""
        asked: Literal["term", "quit"] | None = "quit" if "kill" in self.asked else "term" if self.asked else None
        write_json(self.run.attempt(self.order.attempt).exit, exit_record(self.order.attempt, code=code, asked=asked))
        self.status = JobStatus(stage="gone", begun=True)

    def lose_node(self, why: str) -> None:
        """Nobody writes anything any more."""
        self.status = JobStatus(stage="gone", begun=True, why=why)


class Engine:
    """Jobs by number. `down`: it answers nobody; `questions` counts how often it was asked about several at once,
    `prepared` how often a launch seemed near.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, EngineJob] = {}
        self.questions: list[int] = []
        self.down = False
        self.prepared = 0

    def job(self, run_id: str) -> EngineJob:
        """The newest job of a run."""
        return next(job for job in reversed(self.jobs.values()) if job.run.id == run_id)


class ScriptedLauncher:
    """What a supervisor has of the engine."""

    can = Capabilities()

    def __init__(self, engine: Engine, name: str = "scripted") -> None:
        self.name = name
        self.engine = engine
        self._known: dict[str, JobStatus] = {}

    def prepare(self) -> None:
        """An engine is as quick without, and counts how often it was asked."""
        self.engine.prepared += 1

    def submit(self, run: RunDir, order: LaunchOrder, digest: str) -> Handle:
        if self.engine.down:
            raise MissionError("the engine takes no jobs")
        number = str(4711 + len(self.engine.jobs))
        self.engine.jobs[number] = EngineJob(run, order, digest=digest)
        return Handle(launcher=self.name, id=number, submitted_t=time.time())

    async def refresh(self, jobs: Sequence[Job]) -> None:
        self.engine.questions.append(len(jobs))
        if self.engine.down:
            raise MissionError("the engine does not answer")
        for job in jobs:
            if job.handle is not None:
                self._known[job.dir.id] = self.engine.jobs[job.handle.id].status

    def poll(self, job: Job) -> JobStatus:
        return self._known.get(job.dir.id, NOTHING_SEEN)

    def lives(self, job: Job) -> bool:
        return self.poll(job).lives

    def watch(self, job: Job, gone: Callable[[], None]) -> None:
        pass

    def is_coming(self, job: Job) -> bool:
        return job.handle is not None

    def is_free(self, run: RunDir) -> bool:
        ours = (job for job in self.engine.jobs.values() if job.run.id == run.id)
        return all(job.status.stage == "gone" for job in ours)

    def occupant(self, job: Job) -> Occupant:
        return Occupant("alive, but the engine does not say as which job")

    def stop(self, job: Job) -> Reached:
        return self._ask(job, "stop")

    def kill(self, job: Job) -> Reached:
        return self._ask(job, "kill")

    def _ask(self, job: Job, what: Literal["stop", "kill"]) -> Reached:
        if job.handle is None:
            return "nobody"
        self.engine.jobs[job.handle.id].asked.append(what)
        return "keeper"

    def describe(self, job: Job) -> str:
        return "" if job.handle is None else f"job {job.handle.id}"

    def release(self, job: Job) -> None:
        self._known.pop(job.dir.id, None)

    def secrets(self, job: Job, order: LaunchOrder) -> dict[str, str]:
        return {}

    def freeze(self, job: Job) -> int:
        raise AssertionError("it cannot freeze")

    def thaw(self, job: Job) -> int:
        raise AssertionError("it cannot freeze")

    def is_frozen(self, job: Job) -> bool | None:
        raise AssertionError("it cannot freeze")

    def stop_status(self, job: Job, held: Mapping[int, int | None]) -> StopStatus:
        raise AssertionError("it cannot freeze")


class ScriptedLink:
    """The connection of a trainer that has found a way to the supervisor; orders arrive here."""

    def __init__(self, job: EngineJob) -> None:
        self.hello = TrainerHello(1, job.run.id, job.order.attempt, job.order.nonce, 1)
        self.orders: list[Order] = []

    def send(self, order: Order) -> None:
        self.orders.append(order)
