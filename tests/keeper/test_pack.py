"""Several runs in one job: each has its keeper, its end and its GPU, whatever becomes of the others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from mission_tui.keeper import pack
from mission_tui.records.runs.attempt import ExitRecord, read_exit
from tests.keeper.conftest import CHECKOUT, KeptRun, alive
from tests.waiting import until

STUB = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\nready(os.getpid())\nwait_for_ever()"


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[KeptRun]]:
    """Three runs whose orders are written."""
    with ExitStack() as stack:
        yield [stack.enter_context(_ended(KeptRun(tmp_path / name))) for name in ("a", "b", "c")]


@contextmanager
def _ended(kept: KeptRun) -> Iterator[KeptRun]:
    try:
        yield kept
    finally:
        kept.end_everything()


def carry(folder: Path, *runs: Path, **environ: str) -> subprocess.Popen[bytes]:
    """Start the parent of their keepers, as the script of a job does."""
    attempts = [{"run_dir": str(run), "attempt": 1} for run in runs]
    (folder / "pack.json").write_text(json.dumps({"attempts": attempts}))
    return subprocess.Popen(
        [sys.executable, "-m", "mission_tui.keeper.pack", str(folder), "SLURM_,CUDA_VISIBLE_DEVICES"],
        cwd=CHECKOUT,
        env=os.environ | environ,
        stderr=subprocess.DEVNULL,
    )


def end_of(kept: KeptRun) -> ExitRecord:
    """How the attempt ended, once that is on record."""
    return until(lambda: read_exit(kept.run.attempt(1).exit), what=str(kept.run.path))  # type: ignore[return-value]


def variables_of(pid: int) -> dict[str, str]:
    """What a process was started with."""
    entries = Path(f"/proc/{pid}/environ").read_text(encoding="utf-8").split("\0")
    return dict(entry.split("=", 1) for entry in entries if entry)


def test_each_run_of_a_job_ends_for_itself(tmp_path: Path, three: list[KeptRun]) -> None:
    """One is asked to stop by its file, one loses its keeper to SIGKILL: its trainer is ended and its end on record.
    The third hears what the job is told; a run that was removed meanwhile is nobody's end.
    """
    for kept in three:
        kept.order(STUB)
    runs = [kept.run.path for kept in three]
    job = carry(tmp_path, *runs, tmp_path / "removed", CUDA_VISIBLE_DEVICES="4,7")
    until(lambda: all((run / "ready").exists() for run in runs), what="three trainers")
    until(lambda: all(kept.run.attempt(1).identity.exists() for kept in three), what="three identities")
    stops, dies, stays = three
    shown = [variables_of(kept.told_pids()[0]) for kept in three]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in shown] == ["4", "7", "4"]
    stops.run.attempt(1).signal.write_bytes(b"TERM\n")
    assert (end_of(stops).asked, end_of(stops).code) == ("term", 0)
    os.kill(dies.identity().keeper.pid, signal.SIGKILL)
    ended = end_of(dies)
    assert (ended.signal, ended.last_output) == (signal.SIGKILL, "its keeper was ended by signal 9")
    assert not alive(dies.told_pids()[0])
    assert alive(stays.told_pids()[0])
    job.send_signal(signal.SIGUSR1)
    assert end_of(stays).asked == "limit"
    assert job.wait(15) == 75


def test_a_run_that_was_to_end_before_it_had_begun_never_does(tmp_path: Path, three: list[KeptRun]) -> None:
    """Nor does one whose order cannot be used; each says so itself, and the third trains."""
    ordered, withdrawn, damaged = three
    for kept in three:
        kept.order(STUB)
    withdrawn.run.attempt(1).signal.write_bytes(b"TERM\n")
    damaged.run.attempt(1).launch.write_bytes(b"{")
    job = carry(tmp_path, *(kept.run.path for kept in three))
    until(ordered.run.attempt(1).identity.exists, what="a trainer")
    assert end_of(withdrawn).start_error == "it was asked to end before it had begun"
    assert "cannot use" in (end_of(damaged).start_error or "")
    assert not (withdrawn.run.path / "ready").exists()
    job.send_signal(signal.SIGQUIT)
    assert end_of(ordered).asked == "quit"
    assert job.wait(15) == 75


def test_a_keeper_that_does_not_kill_is_killed(
    tmp_path: Path, three: list[KeptRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once its time is over everything of the run is ended; the job's other runs are not touched."""
    kept = three[0]
    kept.order(STUB)
    monkeypatch.setattr(pack, "KILL_S", 0.2)
    member = pack.Member(kept.run.path, 1, ["SLURM_"], dict(os.environ), b"")
    until(lambda: (kept.run.path / "ready").exists() and kept.run.attempt(1).identity.exists(), what="a trainer")
    os.kill(member.keeper.pid, signal.SIGSTOP)
    kept.run.attempt(1).signal.write_bytes(b"QUIT\n")
    until(member.has_ended, what="its keeper")
    member.settle()
    assert end_of(kept).last_output == "its keeper was ended by signal 9"
    until(lambda: not alive(kept.told_pids()[0]), what="its trainer")
