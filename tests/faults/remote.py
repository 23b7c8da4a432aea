"""Nodes and engines that are not there: what a supervisor sees of them are files of runs and answers to its questions.

Each node has a clock of its own, minutes from the supervisor's. A node may die, or be cut off: its trainer then trains
on, its files stand still, and it comes back. An engine starts jobs twice, loses answers to what it carried out, answers
wrongly, and is started anew without knowing its jobs. Trainers ask the real fence before they write.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from mission_tui.errors import EX_RESUMABLE
from mission_tui.fence import FENCE_S, Fence
from mission_tui.fleet.events.metrics import (
    CheckpointSaved,
    MetricRecord,
    SettingsChanged,
    TrainingEnded,
    TrainingStarted,
    UpdateDone,
)
from mission_tui.ipc.sockets import PROTOCOL
from mission_tui.ipc.telemetry_messages import (
    CheckpointAnswered,
    Heartbeat,
    NumberedOrder,
    Order,
    PhaseEntered,
    RowsWritten,
    TelemetryMessage,
    TrainerHello,
    TrainerWord,
)
from mission_tui.keeper.files import exit_record, signal_in
from mission_tui.records.jsonl import AppendLog, Tail
from mission_tui.records.runs.attempt import read_launch
from mission_tui.records.runs.checkpoint import CheckpointFacts, save_checkpoint, verify_checkpoint
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.launchers.ray_rest import RayError
from mission_tui.supervisor.launchers.slurm_commands import SlurmError
from tests.faults.simulated import World

__all__ = ["Engines", "Job", "Node", "RemoteAttempt"]

UPDATE_S = 4.0
SAVES_EVERY = 3
SKEW_S = 300.0


@dataclass(eq=False)
class Node:
    """A machine whose clock is `skew_s` ahead of the supervisor's; what is on one that is `cut` off sees no files."""

    name: str
    skew_s: float
    cut: bool = False
    dead: bool = False


@dataclass(eq=False)
class Job:
    """What an engine knows of one submission; `state` in Slurm's words. `started` are its attempts on nodes."""

    number: str
    run: RunDir
    attempt: int
    state: str = "PENDING"
    node: str = ""
    code: int | None = None
    started: list[RemoteAttempt] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return self.state not in ("PENDING", "RUNNING")


class RemoteAttempt:
    """Keeper and trainer of an attempt on a node."""

    def __init__(self, engines: Engines, job: Job, node: Node) -> None:
        self.engines, self.world, self.job, self.node = engines, engines.world, job, node
        self.run, self.number = job.run, job.attempt
        self.files = self.run.attempt(self.number)
        self.alive = True
        self.log: AppendLog | None = None
        self.update = self.timesteps = self.beat = 0
        self.stopping = self.paused = self.finishing = False
        self.answered: CheckpointAnswered | None = None
        self.saved_asked_at = float("-inf")
        self.set: Order | None = None
        self.asked: Literal["term", "quit"] | None = None
        self.fence: Fence
        self.heard: set[int] = set()

    def begin(self) -> None:
        """What the keeper does: it refuses what was begun, has ended or was overtaken, and says who it is."""
        order = read_launch(self.files.launch)
        if self.node.dead or order is None:
            self.alive = False
            return
        self.fence = Fence(self.run.path, self.number, order.nonce)
        begun = self.engines.refuses_twice and (self.files.identity.exists() or self.files.exit.exists())
        if begun or signal_in(self.files.signal) is not None or self.fence.overtaken_by() is not None:
            self._leave(EX_RESUMABLE)
            return
        self.hello = TrainerHello(PROTOCOL, self.run.id, self.number, order.nonce, self.engines.pid())
        who = {"pid": self.hello.pid, "start_time": self.hello.pid, "pidfd_inode": None}
        facts = {"boot_id": self.node.name, "uid": os.getuid(), "session": self.hello.pid, "nonce": order.nonce}
        said = {**facts, "attempt": self.number, "started_t": self._clock(), "keeper": who, "trainer": who}
        _replace(self.files.identity, said)
        self.orders = Tail(self.files.orders, NumberedOrder)
        self.log = AppendLog(self.run.metrics, sync_every_s=1e9)
        self.engines.began(self)
        checkpoint = order.argv[-1] if order.argv[-2:-1] == ("--checkpoint",) else None
        if checkpoint is not None:
            manifest = verify_checkpoint(self.run.checkpoints / checkpoint)
            self.update, self.timesteps = manifest.update, manifest.timesteps
        self._write(
            lambda seq: TrainingStarted(seq, self.number, self._clock(), self.update, self.timesteps, checkpoint)
        )
        self.world.after(UPDATE_S, self._go_on)

    def hear(self, word: Literal["TERM", "QUIT"]) -> None:
        """A signal of the engine for the keeper; nothing reaches a node that is cut off."""
        if not self.alive or self.node.cut:
            return
        self.asked = "quit" if word == "QUIT" else self.asked or "term"
        if self.asked == "quit":
            self._record(signal=9)
        else:
            self.stopping = True

    def end_at_once(self) -> None:
        """The engine ends all its processes: nobody writes anything."""
        if self.alive and not self.node.cut:
            self.close()

    def _go_on(self) -> None:
        if not self.alive:
            return
        if self.node.dead:
            self.close()
            return
        self.world.after(UPDATE_S, self._go_on)
        if self.node.cut:
            return
        if self.engines.asks_fence and self.fence.due and self.fence.overtaken_by() is not None:
            self._leave(EX_RESUMABLE)
            return
        if not self._obeys():
            return
        if self.stopping:
            self._end("stopped")
        elif self.finishing:
            self._end("finished")
        elif not self.paused:
            self.update, self.timesteps = self.update + 1, self.timesteps + 64
            place = (self.number, self.update, self.timesteps, self._clock())
            metrics: dict[str, Any] = {"train/approx_kl": 0.01}
            self._write(lambda seq: UpdateDone(seq, *place, 2.0, 2.0, 16.0, metrics))
            if self.update % SAVES_EVERY == 0:
                self._save("time")
        if self.alive:
            self._beat()

    def _obeys(self) -> bool:
        """Do what was ordered; whether it is still there then."""
        self._read_orders()
        return self.alive

    def _read_orders(self) -> None:
        repeated = self.engines.luck.random() < 0.1
        if repeated:
            # As after a file that a network file system showed anew.
            self.orders = Tail(self.files.orders, NumberedOrder)
        if self.engines.luck.random() < 0.1:
            # What was written elsewhere is not seen yet.
            return
        for numbered in self.orders.read():
            order = numbered.order
            if numbered.seq in self.heard and order.what in ("pause", "unpause"):
                continue
            self.heard.add(numbered.seq)
            if order.what == "stop":
                self.stopping = True
            elif order.what in ("pause", "unpause"):
                self.paused = order.what == "pause"
            elif order.what == "checkpoint" and (self.answered is None or order.number > self.answered.number):
                if self._save("asked"):
                    self.answered = CheckpointAnswered(order.number, f"{self.timesteps:09d}")
                    self.saved_asked_at = self.world.now
                if not self.alive:
                    return
            elif order.what == "set" and (self.set is None or order.number > self.set.number):
                self.set = order
                place = (self.number, self.update, self.timesteps, self._clock())
                what = (order.number, order.assignments, order.assignments)
                self._write(lambda seq, it=(*place, *what): SettingsChanged(seq, *it))  # type: ignore[misc]
        word = signal_in(self.files.signal)
        if word is not None:
            self.hear("QUIT" if word.name == "SIGQUIT" else "TERM")

    def _save(self, reason: Literal["time", "asked", "stop", "end"]) -> bool:
        """Whether it was saved: an overtaken one ends itself instead."""
        if self.engines.asks_fence and self.fence.overtaken_by() is not None:
            self._leave(EX_RESUMABLE)
            return False
        name = f"{self.timesteps:09d}"
        self.engines.saves(self, name)
        facts = CheckpointFacts(
            run=self.run.id,
            attempt=self.number,
            update=self.update,
            timesteps=self.timesteps,
            t=self._clock(),
            reason=reason,
            spec_sha256="",
        )
        save_checkpoint(self.run.checkpoints, name, self._fill, facts)
        self._write(
            lambda seq: CheckpointSaved(seq, self.number, self.update, self.timesteps, self._clock(), name, reason)
        )
        return True

    def _fill(self, folder: Path) -> None:
        (folder / "weights").write_text(str(self.number), encoding="ascii")

    def _end(self, how: Literal["stopped", "finished"]) -> None:
        if self._save("stop" if how == "stopped" else "end"):
            place = (self.number, self.update, self.timesteps, self._clock())
            self._write(lambda seq: TrainingEnded(seq, *place, how, checkpoint=f"{self.timesteps:09d}"))
            self._record(code=0)

    def _beat(self) -> None:
        self.beat += 1
        now = self._clock()
        assert self.log is not None
        said: tuple[TelemetryMessage, ...] = (
            PhaseEntered("paused" if self.paused else "update", self.update, self.timesteps, now),
            RowsWritten(self.log.last_seq),
            *([self.answered] if self.answered else []),
            Heartbeat(now),
        )
        _replace(self.files.alive, TrainerWord(self.hello, self.beat, said))

    def _write(self, make: Callable[[int], MetricRecord]) -> None:
        assert self.log is not None
        self.engines.writes(self)
        self.log.append(make)

    def _record(self, **facts: int) -> None:
        record = exit_record(self.number, asked=self.asked, **facts)
        _replace(self.files.exit, {**record, "ended_t": self._clock()})
        self._leave(facts.get("code", 137))

    def _leave(self, code: int) -> None:
        self.close()
        if not self.job.over:
            self.job.code = code
            self.job.state = "COMPLETED" if code == 0 else "FAILED"

    def close(self) -> None:
        """It is gone."""
        self.alive = False
        if self.log is not None:
            self.log.close()

    def _clock(self) -> float:
        return time.time() + self.node.skew_s


REPLACED_S = 5.0
"""A job for which no node is free is looked at again so often."""


class Engines:
    """A Slurm and a Ray in the world's time; `wrong` collects what must never happen on nodes."""

    def __init__(self, world: World, luck: random.Random) -> None:
        self.world, self.luck = world, luck
        self.nodes = [Node(f"n{at}", luck.uniform(-SKEW_S, SKEW_S)) for at in range(1, 5)]
        self.slurm: dict[str, Job] = {}
        self.ray: dict[str, Job] = {}
        self.attempts: list[RemoteAttempt] = []
        self.down_until = 0.0
        self.asks_fence = self.refuses_twice = True
        self.calm = False
        self.lost = self.restarts = self.doubles = 0
        self._lied = False
        self._begun: dict[str, dict[int, float]] = {}
        self._pids = itertools.count(1 << 23)

    def pid(self) -> int:
        return next(self._pids)

    @property
    def jobs(self) -> list[Job]:
        return [*self.slurm.values(), *self.ray.values()]

    def living(self, run: str) -> list[RemoteAttempt]:
        """The attempts of a run whose trainers are there."""
        return [it for it in self.attempts if it.run.id == run and it.alive and it.log is not None and not it.node.dead]

    def close(self) -> None:
        """Close what is open."""
        for attempt in self.attempts:
            attempt.close()

    # What is held against everything that trains.

    def began(self, attempt: RemoteAttempt) -> None:
        begun = self._begun.setdefault(attempt.run.id, {})
        if attempt.number in begun:
            self.world.wrong.append(f"{attempt.run.id}: attempt {attempt.number} trains a second time")
        begun.setdefault(attempt.number, self.world.now)

    def writes(self, attempt: RemoteAttempt) -> None:
        """An elder writes rows for ten seconds after another has begun, and no longer."""
        for number, at in self._begun.get(attempt.run.id, {}).items():
            if number > attempt.number and self.world.now > at + FENCE_S:
                self.world.wrong.append(
                    f"{attempt.run.id}: attempt {attempt.number} writes {self.world.now - at:.1f} s after attempt "
                    f"{number} began"
                )

    def saves(self, attempt: RemoteAttempt, name: str) -> None:
        """No checkpoint of a later attempt is in the way, and none has begun."""
        newest = max(self._begun.get(attempt.run.id, {0: 0.0}))
        if newest > attempt.number:
            self.world.wrong.append(
                f"{attempt.run.id}: attempt {attempt.number} saves {name} after attempt {newest} began"
            )
        weights = attempt.run.checkpoints / name / "weights"
        with suppress(OSError):
            if int(weights.read_text(encoding="ascii")) > attempt.number:
                self.world.wrong.append(f"{attempt.run.id}: attempt {attempt.number} overwrites {name} of a later one")

    # Accidents.

    def place(self, job: Job, *, again: bool = False) -> None:
        """Have it begin on a node that answers, after a while; some jobs are begun twice."""

        def begin() -> None:
            free = [node for node in self.nodes if not (node.dead or node.cut)]
            if job.over or (job.state == "RUNNING" and not again):
                return
            if not free:
                self.world.after(REPLACED_S, begin)
                return
            node = self.luck.choice(free)
            self.doubles += again
            if not again:
                job.state, job.node = "RUNNING", node.name
            attempt = RemoteAttempt(self, job, node)
            job.started.append(attempt)
            self.attempts.append(attempt)
            attempt.begin()

        self.world.after(self.luck.choice((0.5, 3.0, 20.0)) + 5.0 * again, begin)
        if not again and not self.calm and self.luck.random() < 0.15:
            self.place(job, again=True)

    def lose(self, node: Node, seconds: float | None) -> None:
        """The node dies, or (with `seconds`) is cut off for so long; its engine notices, or does not before it is back.

        What comes back may be ended by its engine, or trains on.
        """
        if node.cut or node.dead:
            return
        self.lost += 1
        node.cut, node.dead = seconds is not None, seconds is None
        if node.dead:
            for attempt in self.attempts:
                if attempt.node is node and attempt.alive:
                    attempt.end_at_once()
        carried = [job for job in self.jobs if job.node == node.name and not job.over]
        self.world.after(20.0, lambda: self._noticed(node, carried))
        if seconds is not None:
            self.world.after(seconds, lambda: self._back(node))
        else:
            self.world.after(120.0, lambda: self._repaired(node))

    def _noticed(self, node: Node, carried: Sequence[Job]) -> None:
        """A node that has died comes back without its jobs."""
        for job in carried:
            alive = any(attempt.alive for attempt in job.started)
            if not job.over and (node.cut or node.dead or not alive):
                job.state = "NODE_FAIL"

    def _back(self, node: Node) -> None:
        node.cut = False
        for job in self.jobs:
            if job.node == node.name and job.state == "NODE_FAIL" and self.luck.random() < 0.3:
                for attempt in job.started:
                    attempt.end_at_once()

    def _repaired(self, node: Node) -> None:
        node.dead = False

    def restart(self, seconds: float) -> None:
        """Both answer nobody for so long. Ray has forgotten its jobs then; Slurm has them, or lost its state too."""
        self.restarts += 1
        self.down_until = self.world.now + seconds
        self.ray.clear()
        if self.luck.random() < 0.3:
            self.slurm.clear()

    # What is asked of them.

    def _fate(self) -> Literal["answered", "lost", "wrong"]:
        """What becomes of one answer; never two wrong ones in a row, which nobody could tell from the truth."""
        said = 1.0 if self.calm else self.luck.random()
        wrong = said < 0.1 and not self._lied
        self._lied = wrong
        return "wrong" if wrong else "lost" if said < 0.2 else "answered"

    def command(self, words: Sequence[str], *_: object) -> str:
        """In the place of `slurm.call`."""
        self.world.call()
        if self.world.now < self.down_until:
            raise SlurmError(f"{words[0]}: Unable to contact slurm controller (connect failure)", unreached=True)
        if words[0] == "scontrol":
            return "SelectType = select/cons_tres\n"
        fate = self._fate()
        answer = {"sbatch": self._sbatch, "squeue": self._squeue, "scancel": self._scancel}[words[0]](words, fate)
        self.world.call()
        if fate == "lost":
            raise SlurmError(f"{words[0]} did not answer within 20 s", sent=True)
        return answer

    def _sbatch(self, words: Sequence[str], fate: str) -> str:
        said = dict(word.removeprefix("--").partition("=")[::2] for word in words if word.startswith("--"))
        run, attempt = RunDir(Path(said["chdir"])), int(said["job-name"].rpartition(".")[2])
        number = str(1 + len(self.slurm) + len(self.attempts))
        job = self.slurm[number] = Job(number, run, attempt)
        self.place(job)
        return "Submitted, I think" if fate == "wrong" else f"{number}\n"

    def _squeue(self, _words: Sequence[str], fate: str) -> str:
        if fate == "wrong":
            empty, failed = '{"jobs": []}', '{"jobs": [], "errors": [{"description": "Failed while looking"}]}'
            return self.luck.choice(('{"jobs": [{"job_id"', empty, failed))
        entries = [
            {
                "job_id": int(job.number),
                "name": f"{job.run.id}.{job.attempt}",
                "current_working_directory": str(job.run.path),
                "job_state": job.state,
                "nodes": job.node,
            }
            for job in self.slurm.values()
        ]
        return msgspec.json.encode({"jobs": entries, "errors": []}).decode()

    def _scancel(self, words: Sequence[str], _fate: str) -> str:
        job = self.slurm.get(words[-1])
        if job is None or job.over:
            raise SlurmError("scancel: Invalid job id specified")
        signal = next((word.partition("=")[2] for word in words if word.startswith("--signal=")), "")
        if job.state == "PENDING" or not signal:
            job.state = "CANCELLED"
        for attempt in job.started:
            if signal:
                attempt.hear("QUIT" if signal == "QUIT" else "TERM")
            else:
                attempt.end_at_once()
        return ""

    def rest(self, _at: object, method: str, path: str, body: object = None) -> bytes:
        """In the place of `ray.call`."""
        self.world.call()
        if self.world.now < self.down_until:
            raise RayError("Ray does not answer at http://127.0.0.1:8265: Connection refused", unreached=True)
        fate = self._fate()
        answer = self._answered(method, path, body, fate)
        self.world.call()
        if fate == "lost":
            raise RayError("Ray at http://127.0.0.1:8265 did not answer: it stopped in the middle", sent=True)
        return msgspec.json.encode(answer)

    def _answered(self, method: str, path: str, body: Any, fate: str) -> object:
        if path == "/api/jobs/" and method == "POST":
            number = body["submission_id"]
            if number in self.ray:
                raise RayError(f"Ray answered 500: Job with submission_id {number} already exists", sent=True)
            words = body["entrypoint"].partition("mission_tui.keeper ")[2].split()
            job = self.ray[number] = Job(number, RunDir(Path(words[0].strip("'"))), int(words[1]))
            self.place(job)
            return {"submission_id": number}
        if path == "/api/jobs/":
            if fate == "wrong":
                return self.luck.choice(([], {"result": "what?"}))
            return [self._listed(job) for job in self.ray.values()]
        if path.endswith("/stop"):
            named = self.ray.get(path.split("/")[-2])
            if named is not None and not named.over:
                named.state = "CANCELLED"
                for attempt in named.started:
                    attempt.end_at_once()
            return {"stopped": True}
        if path.startswith("/api/v0/nodes"):
            total = {"CPU": 64.0}
            known = [
                {
                    "node_id": node.name,
                    "node_name": node.name,
                    "state": "DEAD" if node.dead or node.cut else "ALIVE",
                    "resources_total": total,
                }
                for node in self.nodes
            ]
            return {"data": {"result": {"result": known}}}
        return {"data": {"clusterStatus": {"loadMetricsReport": {"usageByNode": {}}}}}

    def _listed(self, job: Job) -> dict[str, object]:
        states = {"PENDING": "PENDING", "RUNNING": "RUNNING", "COMPLETED": "SUCCEEDED", "CANCELLED": "STOPPED"}
        lost = job.state == "NODE_FAIL"
        return {
            "submission_id": job.number,
            "status": states.get(job.state, "FAILED"),
            "message": "The job supervisor actor died because its node has died" if lost else "",
            "error_type": "JOB_SUPERVISOR_ACTOR_DIED" if lost else None,
            "driver_node_id": job.node or None,
            "driver_exit_code": job.code,
        }


def _replace(path: Path, document: object) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(msgspec.json.encode(document))
    temporary.replace(path)
