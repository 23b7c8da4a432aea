"""The trainer as a process: with nobody listening, told to stop by a signal, and beside a supervisor's socket.

Those that train are forks of the test (`tests.trainer.forked`), but for the first.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from mission_tui.fleet.events.metrics import MetricRecord, TrainingEnded, UpdateDone
from mission_tui.ipc.telemetry_messages import Order, PhaseEntered, TelemetryMessage, TrainerHello
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.checkpoint import newest_verified
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer import __main__ as trainer_main
from mission_tui.trainer.state.checkpoint import load_checkpoint
from tests.trainer.forked import Fork, running
from tests.trainer.harness import PROBES, new_run, spec_with
from tests.waiting import until

ROOT = Path(__file__).parents[2]
TRAINER = ("-m", "mission_tui.trainer")
ENDLESS = {"total_timesteps": 10**9}


def impatient(words: list[str]) -> int:
    """A trainer that waits for nothing but half a second before it leaves."""
    trainer_main._LEAVE_S = 0.5
    return trainer_main.main(words)


def environment(**environ: str) -> dict[str, str]:
    """What a trainer is started with."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("MISSION_TUI")}
    return others | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environ}


@contextmanager
def started_anew(run_dir: RunDir, *words: str, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """A trainer process; ended with the test."""
    command = [sys.executable, *TRAINER, str(run_dir.path), *words]
    pipes: dict[str, Any] = {"stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment(**environ), text=True, start_new_session=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def trainer(
    run_dir: RunDir, *words: str, program: Callable[[list[str]], int] = trainer_main.main, **environ: str
) -> AbstractContextManager[Fork]:
    """The same as a fork of the test."""
    return running(program, (str(run_dir.path), *words), environment(**environ))


def rows(run_dir: RunDir) -> list[MetricRecord]:
    """All records of the run."""
    return read_all(run_dir.metrics, MetricRecord)[0]


def advanced(run_dir: RunDir, updates: int = 2) -> bool:
    """Whether the run has done that many updates."""
    return sum(isinstance(row, UpdateDone) for row in rows(run_dir)) >= updates


def last(run_dir: RunDir) -> TrainingEnded:
    """The run's end record."""
    row = rows(run_dir)[-1]
    assert isinstance(row, TrainingEnded)
    return row


@pytest.mark.slow
def test_without_a_supervisor_it_trains_and_writes_its_files(tmp_path: Path) -> None:
    """Nothing in the environment but a run directory: it finishes, with records, values read back and a checkpoint."""
    run_dir = new_run(tmp_path / "run", spec_with(run={"seed": None}))
    with started_anew(run_dir, "1") as process:
        assert process.wait(15) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert last(run_dir).how == "finished"
    assert newest_verified(run_dir.checkpoints) is not None
    effective = tomllib.loads(run_dir.attempt(1).effective.read_text())
    assert effective.keys() == {"env", "ppo", "run", "model", "host", "reasons"}
    assert effective["run"]["seed"] in range(2**31)
    assert effective["reasons"]["run.seed"].startswith("drawn")


@pytest.mark.slow
def test_sigterm_stops_and_saves_and_sigint_does_nothing(tmp_path: Path) -> None:
    """Ctrl-C somewhere does not reach a run; SIGTERM ends it gracefully with exit code 0."""
    run_dir = new_run(tmp_path / "run", spec_with(run=ENDLESS))
    with trainer(run_dir, "1") as process:
        until(lambda: advanced(run_dir), 15)
        process.send_signal(signal.SIGINT)
        until(lambda: advanced(run_dir, 20), 15)
        process.terminate()
        assert process.wait(10) == 0
    assert last(run_dir).how == "stopped"
    manifest = newest_verified(run_dir.checkpoints)
    assert manifest is not None
    assert manifest.name == last(run_dir).checkpoint


@pytest.mark.slow
def test_a_stop_does_not_wait_for_a_long_update(tmp_path: Path) -> None:
    """An update of a million epochs is given up within seconds, and the boundary before it is saved."""
    run_dir = new_run(tmp_path / "run", spec_with(run=ENDLESS, ppo={"n_epochs": 1_000_000}))
    with trainer(run_dir, "1") as process:
        until(lambda: rows(run_dir), 15)
        until(lambda: psutil.Process(process.pid).cpu_times().user > 1.0, 30)
        process.terminate()
        assert process.wait(20) == 0
    assert (last(run_dir).how, last(run_dir).checkpoint) == ("stopped", "000000000")


@pytest.mark.slow
def test_frozen_time_is_not_trained_time(tmp_path: Path) -> None:
    """A run of 1.5 seconds that is stopped for 5 in the middle still trains 1.5, and no update says it took longer."""
    run_dir = new_run(tmp_path / "run", spec_with(run={"total_timesteps": None, "duration_s": 1.5}))
    with trainer(run_dir, "1") as process:
        until(lambda: advanced(run_dir), 15)
        process.send_signal(signal.SIGSTOP)
        stopped_s = time.monotonic()
        until(lambda: time.monotonic() - stopped_s > 5.0, 6)
        process.send_signal(signal.SIGCONT)
        assert process.wait(30) == 0
    assert last(run_dir).how == "finished"
    manifest = newest_verified(run_dir.checkpoints)
    assert manifest is not None
    trained_s = load_checkpoint(run_dir.checkpoints / manifest.name).boundary.trained_s
    updates = [row for row in rows(run_dir) if isinstance(row, UpdateDone)]
    # What was frozen would be five seconds more, all in one update.
    assert 1.5 <= trained_s < 4.5
    assert 0.25 < sum(row.rollout_s + row.update_s for row in updates) < 4.5
    assert max(row.rollout_s + row.update_s for row in updates) < 4.0


def test_it_is_nice_to_the_screen(tmp_path: Path) -> None:
    """The process runs at nice 5, and under a keeper so does its session, which the kernel weighs first."""
    run_dir = new_run(tmp_path / "run", spec_with(run=ENDLESS))
    autogroup = Path("/proc/self/autogroup").exists()
    for environ in ({}, {"MISSION_TUI_LEASE_FD": "99"}):
        with started_anew(run_dir, "1", **environ) as process:
            until(lambda: psutil.Process(process.pid).nice() == 5, 10)
            if autogroup:
                weight = "nice 5" if environ else "nice 0"
                until(lambda: weight in Path(f"/proc/{process.pid}/autogroup").read_text(), 5)  # noqa: B023 - as above


def test_a_trainer_of_another_directory_trains_nothing(tmp_path: Path) -> None:
    """Its lease must be the run directory's own: with the original's it writes nothing into a copy, nor back."""
    run_dir = new_run(tmp_path / "run", spec_with(run=ENDLESS))
    other = tmp_path / "other"
    other.mkdir()
    for folder in (run_dir.path, other):
        (folder / "lease").touch()
    before = sorted(run_dir.path.rglob("*"))
    with (other / "lease").open("rb") as lease:
        os.set_inheritable(lease.fileno(), True)
        environ = os.environ | {"MISSION_TUI_LEASE_FD": str(lease.fileno()), "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(
            [sys.executable, *TRAINER, str(run_dir.path), "1"], env=environ, close_fds=False,
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
    assert ended.returncode == 75
    assert "it was started for another run directory, so it trains nothing" in ended.stderr
    assert sorted(run_dir.path.rglob("*")) == before


@pytest.mark.slow
def test_a_bad_preset_exits_78_with_one_line(tmp_path: Path) -> None:
    """A person reads one sentence, not a traceback."""
    run_dir = new_run(tmp_path / "run", spec_with(env={"id": "CartPol-v1"}))
    with trainer(run_dir, "1") as process:
        assert process.wait(15) == 78
        assert process.stderr.read().splitlines() == [
            "mission-tui: env.id 'CartPol-v1' is not a registered environment; did you mean 'CartPole-v1'?"
        ]
    assert last(run_dir).failure == "config"


def test_without_a_run_directory_it_says_so_and_leaves(tmp_path: Path) -> None:
    """Nothing can be recorded; one line says which file could not be opened."""
    with trainer(RunDir(tmp_path / "nowhere"), "1") as process:
        assert process.wait(10) == 1
        (line,) = process.stderr.read().splitlines()
        assert "metrics.jsonl" in line


@pytest.mark.slow
def test_a_dead_env_worker_ends_the_run_with_its_name(tmp_path: Path) -> None:
    """SIGKILL to one worker: the cause names it, the last boundary is saved, no process stays."""
    run_dir = new_run(
        tmp_path / "run", spec_with(env={"id": "Walk-v0", "vec": "workers", "n_workers": 2, **PROBES}, run=ENDLESS)
    )
    with trainer(run_dir, "1") as process:
        until(lambda: advanced(run_dir), 30)
        family = psutil.Process(process.pid).children(recursive=True)
        assert ["worker" in child.cmdline()[0] for child in family] == [True, True]
        family[1].kill()
        assert process.wait(15) == 1
    assert last(run_dir).failure == "env"
    assert "was killed (SIGKILL, signal 9)" in last(run_dir).cause
    assert last(run_dir).checkpoint is not None
    until(lambda: not any(child.is_running() for child in family), 10)


@pytest.mark.slow
def test_an_environment_that_never_closes_does_not_keep_the_process(tmp_path: Path) -> None:
    """Its `close` hangs: the run has finished, its process leaves with the code of that, and says why."""
    run_dir = new_run(tmp_path / "run", spec_with(env={"id": "Clinging-v0", **PROBES}))
    with trainer(run_dir, "1", program=impatient) as process:
        assert process.wait(15) == 0
        assert "leaving without" in process.stderr.read()
    assert last(run_dir).how == "finished"


@pytest.mark.slow
def test_it_says_hello_with_its_nonce_and_obeys_orders(tmp_path: Path) -> None:
    """On the telemetry socket it names run, attempt and nonce, tells its phases, and stops when ordered."""
    run_dir = new_run(tmp_path / "run", spec_with(run=ENDLESS))
    with socket.socket(socket.AF_UNIX) as server:
        path = tmp_path / "telemetry.sock"
        server.bind(str(path))
        server.listen()
        server.settimeout(15)
        environ = {"MISSION_TUI_TELEMETRY": str(path), "MISSION_TUI_RUN": "a-run", "MISSION_TUI_NONCE": "secret"}
        with trainer(run_dir, "1", program=trainer_main.main, **environ) as process:
            link, _ = server.accept()
            with link, link.makefile("rb") as lines:
                decoder: Any = msgspec.json.Decoder(TelemetryMessage)
                hello = decoder.decode(lines.readline())
                assert isinstance(hello, TrainerHello)
                assert (hello.run, hello.attempt, hello.nonce, hello.pid) == ("a-run", 1, "secret", process.pid)
                message = decoder.decode(lines.readline())
                while not (isinstance(message, PhaseEntered) and message.update > 1):
                    message = decoder.decode(lines.readline())
                link.sendall(msgspec.json.encode(Order("stop")) + b"\n")
                assert process.wait(10) == 0
    assert last(run_dir).how == "stopped"


def test_an_end_that_no_thread_can_watch_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a limit of threads a run that has finished is no failure: what would watch its last seconds is left out."""

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Timer, "start", refuse)
    trainer_main._leave_soon(0)
