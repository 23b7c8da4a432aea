"""A runs root with very many ended runs, and live ones that a simulated Slurm and Ray carry out, under a real
supervisor.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import msgspec
from msgspec import structs

from benchmarks.clusters.engine import ADDRESS, BIN
from benchmarks.clusters.nodes import rows_of
from benchmarks.fleet.lab import ROOT, Lab, until
from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, RunCreated
from mission_tui.fleet.events.metrics import TrainingEnded, TrainingStarted, UpdateDone
from mission_tui.fleet.events.outcome import Failed, Finished, Outcome, Stopped
from mission_tui.fleet.specs.spec import EnvSpec, LaunchItem, PpoSpec, RunSpec, Spec
from mission_tui.keeper.files import exit_record, write_json
from mission_tui.paths import socket_dir
from mission_tui.records.jsonl import encode_line
from mission_tui.records.runs.attempt import Handle, LaunchOrder, write_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.seal import Seals

OLD_T = 1.75e9
AT_ONCE = 50
"""Runs of one launch."""


def spec_of(launcher: str, steps: int = 10**9) -> Spec:
    """What every run here is of; nothing of it is trained."""
    return Spec(
        preset="replay",
        env=EnvSpec(id="CartPole-v1", n_envs=16, vec="inline"),
        ppo=PpoSpec(n_steps=32, batch_size=128, n_epochs=5),
        run=RunSpec(total_timesteps=steps, launcher=launcher),
    )


def make_ended(root: Path, runs: int, seals: Seals, rows: int = 20) -> None:
    """`runs` ended runs of this user, a minute apart, each with its order, its end and the last rows of a training."""
    root.mkdir(parents=True, exist_ok=True)
    traces = rows_of()
    spec = _spec_document(root, "slurm")
    # What is never acknowledged to anybody need not be on the disk for good.
    with mock.patch("os.fsync"), mock.patch("os.fdatasync"):
        for number in range(runs):
            _make_one(root, number, seals, spec, traces[number % len(traces)][:rows])


def make_live(root: Path, runs: int, seals: Seals, address: str) -> list[str]:
    """`runs` runs of this user that were handed to an engine, every second one to Ray at `address`; their ids."""
    ids = []
    with mock.patch("os.fsync"), mock.patch("os.fdatasync"):
        for number in range(runs):
            launcher = ("slurm", "ray")[number % 2]
            spec, t = _spec_document(root, launcher), OLD_T + 3e7 + number
            name = f"{launcher}-{number:04d}"
            run = _begun(root, name, number, seals, spec, {"MISSION_TUI_MAILBOX": "1"}, t)
            made = RunCreated(1, t, name, "replay", f"sweep-{number // 25}")
            run.events.write_bytes(encode_line(made) + encode_line(AttemptStarting(2, t, 1)))
            handle = Handle(
                launcher=launcher,
                id=str(1 + number) if launcher == "slurm" else f"{run.id}.1",
                submitted_t=t,
                address="" if launcher == "slurm" else address,
            )
            (run.attempt(1).handle).write_bytes(msgspec.json.encode(handle))
            ids.append(run.id)
    return ids


def _spec_document(root: Path, launcher: str) -> bytes:
    path = root / "spec.toml"
    write_spec(path, spec_of(launcher))
    document = path.read_bytes()
    path.unlink()
    return document


def _begun(root: Path, name: str, number: int, seals: Seals, spec: bytes, environ: dict[str, str], t: float) -> RunDir:
    """The directory of a run with its first order, sealed."""
    run = RunDir(root / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(t))}-{name}-{number % 65536:04x}")
    run.attempt(1).path.mkdir(parents=True)
    run.spec.write_bytes(spec)
    argv = (sys.executable, "-m", "mission_tui.trainer", ".", "1")
    env = {name: os.environ.get(name, "") for name in ("PATH", "HOME", "LANG")} | environ
    order = LaunchOrder(run=run.id, attempt=1, argv=argv, cwd="/", env=env, nonce=f"{number:032x}", run_dir_at=3)
    seals.write_order(run, order)
    return run


def _make_one(root: Path, number: int, seals: Seals, spec: bytes, trace: Sequence[UpdateDone]) -> None:
    t = OLD_T + 60.0 * number
    run = _begun(root, "old", number, seals, spec, {}, t)
    last = trace[-1].timesteps
    outcomes: tuple[Outcome, ...] = (
        Finished(f"{last:09d}"),
        Finished(f"{last:09d}"),
        Stopped(checkpoint=None),
        Failed(kind="crash", cause="exit code 1", checkpoint=None),
    )
    group = None if number % 3 else f"old-{number // 300}"
    events = (
        RunCreated(1, t, f"old-{number}", "replay", group),
        AttemptStarting(2, t, 1),
        AttemptEnded(3, t + 50.0, 1, outcomes[number % len(outcomes)]),
    )
    run.events.write_bytes(b"".join(map(encode_line, events)))
    rows = [structs.replace(row, seq=2 + at, attempt=1, update=at + 1, t=t + 2 * at) for at, row in enumerate(trace)]
    end = TrainingEnded(len(rows) + 2, 1, len(rows), last, t + 50.0, "finished")
    run.metrics.write_bytes(b"".join(map(encode_line, (TrainingStarted(1, 1, t), *rows, end))))
    write_json(run.attempt(1).exit, exit_record(1, code=0))


class Field:
    """`lab` and the engines beside it."""

    def __init__(self, lab: Lab, folder: Path, process: subprocess.Popen[bytes], ids: list[str]) -> None:
        self.lab, self.folder, self.process, self.ids = lab, folder, process, ids

    def engine(self, *words: str) -> str:
        """What the engines say to a word of `engine`."""
        done = subprocess.run(
            [self.folder / BIN / "engine", *words], stdout=subprocess.PIPE, text=True, check=True, timeout=30
        )
        return done.stdout

    def counts(self) -> dict[str, int]:
        """How often each engine was asked what."""
        counts: dict[str, int] = json.loads(self.engine("counts"))
        return counts

    def launch(self, runs: int, launcher: str) -> list[str]:
        """Launch so many; their ids, each acknowledged."""
        names = [f"{launcher}-{number:04d}" for number in range(runs)]
        items = [
            LaunchItem(spec=spec_of(launcher), name=name, group=f"{launcher}-{at // 25}")
            for at, name in enumerate(names)
        ]
        ids: list[str] = []
        for start in range(0, runs, AT_ONCE):
            ids += self.lab.launch_items(items[start : start + AT_ONCE])
        return ids

    def all_train(self, runs: Sequence[str], timeout_s: float) -> None:
        """Wait until every one of `runs` has finished an update."""
        until(lambda: self._training(runs) == len(runs), timeout_s, "all of them train", 1.0)

    def _training(self, runs: Sequence[str]) -> int:
        views = self.lab.views()
        return sum(run in views and (views[run].update or 0) >= 1 for run in runs)


@contextmanager
def field_of(folder: Path, *, ended: int, live: int, row_s: float = 10.0, **faults: float) -> Iterator[Field]:
    """A runs root in `folder` with so many ended and live runs, and the engines that carry the live ones; no supervisor
    yet. Nobody is asked to stop at the end: nothing trains here.
    """
    engines = folder / "engines"
    engines.mkdir()
    words = [word for name, value in faults.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    command = [sys.executable, "-m", "benchmarks.clusters.engine", str(engines), "--jobs", str(live)]
    process = subprocess.Popen([*command, "--row-s", str(row_s), *words], cwd=ROOT)
    try:
        ray = engines / ADDRESS
        until(lambda: ray.exists() and ray.read_text(encoding="ascii"), 60.0, "the engines are there", 0.05)
        path, address = f"{engines / BIN}{os.pathsep}{os.environ['PATH']}", ray.read_text(encoding="ascii")
        lab = Lab(folder / "runs", {"PATH": path, "RAY_ADDRESS": address, "MISSION_TUI_PRELOAD": "0"})
        lab.root.mkdir()
        seals = Seals.of(lab.environ)
        make_ended(lab.root, ended, seals)
        ids = make_live(lab.root, live, seals, address)
        field = Field(lab, engines, process, ids)
        field.engine("carry", str(lab.root))
        try:
            yield field
        finally:
            with suppress(subprocess.CalledProcessError):
                lab.cli("supervisor", "stop")
            shutil.rmtree(socket_dir(lab.root), ignore_errors=True)
    finally:
        process.terminate()
        process.wait()
