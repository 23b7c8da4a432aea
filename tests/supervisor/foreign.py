"""A runs root as it may come with somebody else's repository: every run of it would have something run, if it could."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec import structs

from mission_tui.fleet.events.journal import (
    Asked,
    AttemptEnded,
    AttemptStarting,
    FleetEvent,
    RestartDue,
    RunCreated,
)
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.events.outcome import Failed
from mission_tui.fleet.specs.spec import KeepSpec, Spec
from mission_tui.fleet.specs.thresholds import HealthKeep
from mission_tui.procfs import boot_id, read_stat
from mission_tui.records.atomic import write_atomic, write_json
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.attempt import (
    ExitRecord,
    Identity,
    LaunchOrder,
    ProcessIdentity,
    TrackState,
    launch_document,
    write_spec,
)
from mission_tui.records.runs.layout import RunDir

NONCE = "0" * 32


def write_launch(path: Path, order: LaunchOrder) -> None:
    """Write an order as it stands in a run directory, but for the seal that a supervisor puts on it."""
    write_atomic(path, launch_document(order), mode=0o600)


class ForeignRoot:
    """Makes runs in `root` that nobody of this machine launched; whatever they have run touches a file in `marks`."""

    def __init__(self, root: Path, marks: Path, spec: Spec) -> None:
        self.root, self.marks, self.spec = root, marks, spec
        marks.mkdir(parents=True, exist_ok=True)
        self.made: list[str] = []

    def shell(self, name: str) -> tuple[str, ...]:
        """A command that leaves the mark `name`."""
        return ("/bin/sh", "-c", f"touch {shlex.quote(str(self.marks / name))}")

    def ran(self) -> list[str]:
        """The marks that were left."""
        return sorted(path.name for path in self.marks.iterdir())

    def run(self, name: str, *events: Callable[[int, float], FleetEvent], spec: Spec | None = None) -> RunDir:
        """A run whose order, interpreter and hooks are all commands that leave marks."""
        run = RunDir(self.root / f"20260101-0000{len(self.made):02d}-{name}-0000")
        run.attempt(1).path.mkdir(parents=True)
        on_event = shlex.join(self.shell(f"{name}-on-event"))
        keep = KeepSpec(health=HealthKeep(on_event=on_event))
        write_spec(run.spec, structs.replace(spec or self.spec, keep=keep))
        env = {"PATH": os.environ["PATH"], "MISSION_TUI_RUN_DIR": str(run.path), "MISSION_TUI_NONCE": NONCE}
        order = LaunchOrder(run=run.id, attempt=1, argv=self.shell(f"{name}-order"), cwd="/", env=env, nonce=NONCE)
        order = structs.replace(order, python=sys.executable)
        write_launch(run.attempt(1).launch, order)
        journal = AppendLog(run.events)
        story: list[Callable[[int, float], FleetEvent]] = [partial(_created, name), *events]
        for make in story:
            journal.append(partial(_a_minute_ago, make))
        journal.close()
        metrics = AppendLog(run.metrics)
        for update in range(1, 4):
            metrics.append(partial(_row, update))
        metrics.close()
        self.made.append(run.id)
        return run

    def identify(self, run: RunDir, pid: int, boot: str | None = None) -> None:
        """Say that process `pid` is keeper and trainer of the run, as it really is: start time and pidfd."""
        stat = read_stat(pid)
        assert stat is not None
        inode = os.fstat(os.pidfd_open(pid)).st_ino
        process = ProcessIdentity(pid=pid, start_time=stat.start_time, pidfd_inode=inode)
        identity = Identity(
            boot_id=boot or boot_id(), uid=os.getuid(), session=stat.session, nonce=NONCE, attempt=1, keeper=process,
            trainer=process, started_t=time.time() - 60,
        )  # fmt: skip
        write_json(run.attempt(1).identity, identity)

    def every_road(self, innocent: Sequence[int]) -> None:
        """A run for every road on which a runs root could have something done; `innocent` processes are named in it."""

        def starting(seq: int, t: float) -> FleetEvent:
            return AttemptStarting(seq, t, 1, total_timesteps=10**9)

        def failed(seq: int, t: float) -> FleetEvent:
            return AttemptEnded(seq, t, 1, Failed(kind="unknown", cause="somewhere else"))

        def killed(seq: int, t: float) -> FleetEvent:
            return Asked(seq, t, "kill", 1)

        def frozen(seq: int, t: float) -> FleetEvent:
            return Asked(seq, t, "freeze", 1)

        def restart(seq: int, t: float) -> FleetEvent:
            return RestartDue(seq, t, 1, 1, 3, t)

        self.run("queued")
        self.run("unbegun", starting)
        tracked = self.run("failed", starting, failed)
        write_json(tracked.track("tensorboard"), TrackState("tensorboard"))
        self.run("restarts", starting, failed, restart)
        ended = self.run("just-ended", starting)
        write_json(ended.attempt(1).exit, ExitRecord(attempt=1, ended_t=time.time() - 30, code=1))
        rebooted = self.run("rebooted", starting)
        self.identify(rebooted, os.getpid(), "00000000-0000-0000-0000-000000000000")
        for verb, pid in zip((killed, frozen), innocent, strict=True):
            self.identify(self.run("forged", starting, verb), pid)


def _created(name: str, seq: int, t: float) -> FleetEvent:
    return RunCreated(seq, t, name=name, preset="stub")


def _a_minute_ago(make: Callable[[int, float], FleetEvent], seq: int) -> FleetEvent:
    return make(seq, time.time() - 60)


def _row(update: int, seq: int) -> UpdateDone:
    return UpdateDone(
        seq=seq,
        attempt=1,
        update=update,
        timesteps=64 * update,
        t=time.time() - 50,
        rollout_s=0.1,
        update_s=0.1,
        steps_per_s=320.0,
        metrics={"rollout/ep_rew_mean": float(update)},
    )
