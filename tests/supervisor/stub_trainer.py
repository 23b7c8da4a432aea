"""A scripted trainer without torch: speaks the trainer protocol, starts fake env workers, writes fake checkpoints.

`STUB_*` variables script it: `STUB_UPDATE_S` (seconds an update takes), `STUB_WORKERS` (how many fake env workers),
`STUB_FORKS` (how many children a forking helper gets), `STUB_DEAF` (obeys no stop), `STUB_MUTE` (no telemetry),
`STUB_KL` (approx_kl of every update; none of them learns), `STUB_NAN_FROM` (the first update whose approx_kl is no
number),
`STUB_DIES_AT` (the update at which it ends by itself, as failed), `STUB_CRASHES_AFTER` (how many updates an attempt
does before it ends by SIGSEGV), `STUB_MAPS` (a file it maps, as drivers map their devices), `STUB_SAVE_S` (how long
a checkpoint takes to write), `STUB_COMPILE_S` (how long it compiles where its spec says so), `STUB_SET_FREE` (takes
over no settings while it trains), `STUB_PHASES` (seconds of a rollout and of an update, such as "0.3,0.2"; when each
began goes to the file `phases` of its run), `STUB_RETURNS` (each update ends an episode whose return is its learning
rate x 1e6, and what its seed adds; it is the metric `rollout/rate` too).
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
import time
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mission_tui.fleet.events.metrics import (
    CheckpointSaved,
    Episodes,
    Metric,
    MetricRecord,
    SettingsChanged,
    TrainingEnded,
    TrainingStarted,
    UpdateDone,
)
from mission_tui.fleet.events.outcome import Phase
from mission_tui.fleet.specs.spec import Spec, rollout_size
from mission_tui.ipc.sockets import PROTOCOL
from mission_tui.ipc.telemetry import Telemetry
from mission_tui.ipc.telemetry_messages import Order, PhaseEntered, RowsWritten, TrainerHello
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.checkpoint import CheckpointFacts, save_checkpoint, verify_checkpoint
from mission_tui.records.runs.layout import RunDir

# Hundreds of tests start this: what most of them never need is half of what would be loaded.
if TYPE_CHECKING:
    import subprocess

    from mission_tui.trainer.orders import Mailbox

WORKER = "import time\nwhile True: time.sleep(60)"
FORKER = "import os, sys, time\nfor _ in range({}): os.fork() or time.sleep(600)\ntime.sleep(600)"


class StubTrainer:
    """One attempt that learns nothing."""

    def __init__(self, run: RunDir, attempt: int, checkpoint: str | None, environ: Mapping[str, str]) -> None:
        self.run, self.attempt, self.environ = run, attempt, environ
        own = run.attempt(attempt).spec
        self.spec = msgspec.convert(tomllib.loads((own if own.is_file() else run.spec).read_text()), Spec)
        self.update_s = float(environ.get("STUB_UPDATE_S", "0.05"))
        phases = environ.get("STUB_PHASES", f"{self.update_s},0").split(",")
        self.rollout_s, self.learn_s = (float(seconds) for seconds in phases)
        self.stopping = self.paused = False
        self.update = self.timesteps = self.set = 0
        self.checkpoint = checkpoint
        if checkpoint is not None:
            manifest = verify_checkpoint(run.checkpoints / checkpoint)
            self.update, self.timesteps = manifest.update, manifest.timesteps
        self.log = AppendLog(run.metrics, sync_every_s=1.0)
        self.telemetry = self._connect()
        self.workers = [self._worker(WORKER) for _ in range(int(environ.get("STUB_WORKERS", "0")))]
        if "STUB_MAPS" in environ:
            self.mapped = mmap.mmap(os.open(environ["STUB_MAPS"], os.O_RDWR), 0)
        if "STUB_FORKS" in environ:
            self.workers.append(self._worker(FORKER.format(environ["STUB_FORKS"])))

    def train(self) -> int:
        """Updates until the budget is used up or a stop is asked."""
        begun = (self.update, self.timesteps, self.checkpoint)
        self._write(lambda seq: TrainingStarted(seq, self.attempt, time.time(), *begun))
        if self.spec.run.compile:
            time.sleep(float(self.environ.get("STUB_COMPILE_S", "0")))
        until_s = time.monotonic() + (self.spec.run.duration_s or float("inf"))
        end = min(self.spec.run.total_timesteps or sys.maxsize, self._until_timesteps() or sys.maxsize)
        while not self.stopping and self.timesteps < end:
            if time.monotonic() >= until_s:
                break
            self._learn()
            self._obey()
            if self.update - begun[0] == int(self.environ.get("STUB_CRASHES_AFTER", "-1")):
                os.kill(os.getpid(), signal.SIGSEGV)
            if self.update == int(self.environ.get("STUB_DIES_AT", "-1")):
                return self._die()
            if self.update == int(self.environ.get("STUB_ENDS_AT", "-1")):
                break
            while self.paused and not self.stopping:
                self._say("paused")
                time.sleep(0.02)
                self._obey()
        self._save("stop" if self.stopping else "end")
        how: Literal["stopped", "finished"] = "stopped" if self.stopping else "finished"
        self._write(
            lambda seq: TrainingEnded(
                seq, self.attempt, self.update, self.timesteps, time.time(), how, checkpoint=self.checkpoint
            )
        )
        self.log.close()
        for worker in self.workers:
            worker.kill()
            worker.wait()
        if self.telemetry is not None:
            self.telemetry.close()
        return 0

    def _until_timesteps(self) -> int:
        """Where a trial's branch ends; 0 where nothing says so."""
        if not (path := self.run.attempt(self.attempt).terms).exists():
            return 0
        from mission_tui.records.runs.attempt import read_terms

        return read_terms(path).until_timesteps

    def _learn(self) -> None:
        """A rollout and an update, as long as they are said to be."""
        seconds = []
        phases: tuple[tuple[Phase, float], ...] = (("rollout", self.rollout_s), ("update", self.learn_s))
        for phase, lasts in phases:
            begun = time.time()
            if "STUB_PHASES" in self.environ:
                with (self.run.path / "phases").open("a", encoding="ascii") as file:
                    file.write(f"{phase} {begun}\n")
            self._say(phase)
            time.sleep(lasts)
            seconds.append(time.time() - begun)
        self._update(*seconds)

    def _die(self) -> int:
        self._write(
            lambda seq: TrainingEnded(
                seq, self.attempt, self.update, self.timesteps, time.time(), "failed", "nan", "loss is nan"
            )
        )
        self.log.close()
        if self.telemetry is not None:
            self.telemetry.close()
        return 1

    def ask_stop(self) -> None:
        """SIGTERM."""
        self.stopping = "STUB_DEAF" not in self.environ

    def _connect(self) -> Telemetry | Mailbox | None:
        if "STUB_MUTE" in self.environ:
            return None
        nonce = self.environ["MISSION_TUI_NONCE"]
        hello = TrainerHello(PROTOCOL, self.run.id, self.attempt, nonce, os.getpid())
        if "MISSION_TUI_MAILBOX" in self.environ:
            from mission_tui.trainer.orders import Mailbox

            return Mailbox(self.run.attempt(self.attempt), hello)
        return Telemetry(Path(self.environ["MISSION_TUI_TELEMETRY"]), hello)

    def _worker(self, program: str) -> subprocess.Popen[bytes]:
        import subprocess

        return subprocess.Popen([sys.executable, "-S", "-c", program, str(self.run.path)])

    def _update(self, rollout_s: float, update_s: float) -> None:
        self.update += 1
        self.timesteps += rollout_size(self.spec)
        kl: Metric = float(self.environ.get("STUB_KL", "0.01"))
        if self.update >= int(self.environ.get("STUB_NAN_FROM", sys.maxsize)):
            kl = "nan"
        learned = 0.0 if "STUB_KL" in self.environ else self.update / 10
        metrics: dict[str, Metric] = {"rollout/ep_rew_mean": learned, "train/approx_kl": kl}
        episodes = Episodes()
        if "STUB_RETURNS" in self.environ:
            rate = self.spec.ppo.learning_rate
            assert isinstance(rate, float)
            brought = rate * 1e6 + (self.spec.run.seed or 0) % 7
            episodes, metrics["rollout/rate"] = Episodes(n=1, r=(brought,)), brought
        self._write(
            lambda seq: UpdateDone(
                seq,
                self.attempt,
                self.update,
                self.timesteps,
                time.time(),
                rollout_s,
                update_s,
                1000.0,
                metrics,
                episodes,
            )
        )

    def _obey(self) -> None:
        for order in self.telemetry.orders() if self.telemetry is not None else ():
            self._obey_one(order)

    def _obey_one(self, order: Order) -> None:
        match order.what:
            case "stop":
                self.ask_stop()
            case "pause":
                self.paused = True
            case "unpause":
                self.paused = False
            case "checkpoint":
                self._save(order.reason)
            case "set":
                self._change_settings(order)
            case "keep":
                print(f"keeps {', '.join(order.keep)}", flush=True)

    def _change_settings(self, order: Order) -> None:
        if order.number <= self.set or "STUB_SET_FREE" in self.environ:
            return
        from mission_tui.fleet.specs.preset import with_words

        self.set, words = order.number, order.assignments
        self.spec = with_words(self.spec, (words,))
        place = (self.attempt, self.update, self.timesteps)
        self._write(lambda seq: SettingsChanged(seq, *place, time.time(), order.number, words, words))

    def _save(self, reason: Literal["asked", "finding", "stop", "end"]) -> None:
        name = f"{self.timesteps:09d}"
        facts = CheckpointFacts(
            run=self.run.id,
            attempt=self.attempt,
            update=self.update,
            timesteps=self.timesteps,
            t=time.time(),
            reason=reason,
            spec_sha256="",
        )
        save_checkpoint(self.run.checkpoints, name, partial(fill, float(self.environ.get("STUB_SAVE_S", "0"))), facts)
        self.checkpoint = name
        self._write(
            lambda seq: CheckpointSaved(seq, self.attempt, self.update, self.timesteps, time.time(), name, reason)
        )

    def _write(self, make: Callable[[int], MetricRecord]) -> None:
        record = self.log.append(make)
        if self.telemetry is not None:
            self.telemetry.send(RowsWritten(record.seq))

    def _say(self, phase: Phase) -> None:
        if self.telemetry is not None:
            self.telemetry.send(PhaseEntered(phase, self.update, self.timesteps, time.time()))


def fill(seconds: float, folder: Path) -> None:
    """The one member of a fake checkpoint, written over so many seconds."""
    with (folder / "weights").open("w", encoding="ascii") as file:
        for character in folder.name:
            file.write(character)
            file.flush()
            time.sleep(seconds / len(folder.name))


def main(words: list[str], environ: Mapping[str, str]) -> int:
    """Train the attempt that the words name."""
    os.set_inheritable(int(environ["MISSION_TUI_LEASE_FD"]), False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    checkpoint = words[words.index("--checkpoint") + 1] if "--checkpoint" in words else None
    trainer = StubTrainer(RunDir(Path(words[0])), int(words[1]), checkpoint, environ)
    signal.signal(signal.SIGTERM, lambda *_: trainer.ask_stop())
    return trainer.train()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
