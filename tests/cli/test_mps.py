"""NVIDIA MPS is found by its own files, explained where runs share a GPU, and never started."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.cli.verbs.doctor import judge_mps
from mission_tui.fleet.events.processes import Usage
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.gpu_driver import MPS_PROGRAM, Mps, find_mps
from mission_tui.present.machines import START, sharing_sentence
from tests.tui.fleets import GPU, a_fleet, a_run
from tests.waiting import until

ABSENT = Mps(installed=False, running=False, folder="/tmp/nvidia-mps")
IDLE = Mps(installed=True, running=False, folder="/tmp/nvidia-mps")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is called as the daemon is, with the files that it keeps in the folder of its pipes."""
    program = tmp_path / MPS_PROGRAM
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    process = subprocess.Popen([program, "60"])
    until(lambda: Path(f"/proc/{process.pid}/comm").read_text().startswith(MPS_PROGRAM[:15]))
    (tmp_path / f"{MPS_PROGRAM}.pid").write_text(f"{process.pid}\n")
    os.mkfifo(tmp_path / "control")
    yield process
    process.kill()
    process.wait()


def around(folder: Path) -> dict[str, str]:
    return {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "PATH": str(folder)}


def test_a_running_daemon_is_found_and_a_dead_one_is_not(tmp_path: Path, daemon: subprocess.Popen[bytes]) -> None:
    """By the process that its file names: files stay behind when it dies, and its number is given to others."""
    assert find_mps(around(tmp_path)) == Mps(installed=True, running=True, folder=str(tmp_path))
    (tmp_path / f"{MPS_PROGRAM}.pid").write_text(str(os.getpid()))
    assert not find_mps(around(tmp_path)).running
    (tmp_path / f"{MPS_PROGRAM}.pid").write_text(str(daemon.pid))
    daemon.kill()
    daemon.wait()
    assert find_mps(around(tmp_path)) == Mps(installed=True, running=False, folder=str(tmp_path))


@pytest.mark.parametrize("written", ["", "soon", "-4"])
def test_a_file_of_nonsense_is_no_daemon(tmp_path: Path, written: str) -> None:
    """Nor is a machine without any of it an error."""
    assert find_mps(around(tmp_path)) == Mps(installed=False, running=False, folder=str(tmp_path))
    (tmp_path / f"{MPS_PROGRAM}.pid").write_text(written)
    assert not find_mps(around(tmp_path)).running


def test_doctor_offers_the_command_with_its_risk() -> None:
    """Where it could be started; where it runs the way to end it is named."""
    assert START in judge_mps(IDLE).advice
    assert "can then end the others" in judge_mps(IDLE).advice
    assert judge_mps(ABSENT).advice == ""
    assert judge_mps(Mps(True, True, "/p")).level == "ok"
    assert "another user" in judge_mps(Mps(True, True, "/p", ours=False)).detail


def computing(name: str) -> RunView:
    return a_run(name, usage=Usage(90.0, 1 << 30, 4, 1, 1 << 30))


def test_top_speaks_of_it_where_runs_share_a_gpu() -> None:
    """Two runs with memory of the only GPU share it; one does not, and with two GPUs nobody knows."""
    two = (computing("a"), computing("b"))
    assert sharing_sentence(a_fleet(two[:1]), IDLE) is None
    assert sharing_sentence(a_fleet(two, gpus=(GPU, GPU)), IDLE) is None
    assert sharing_sentence(a_fleet(two, gpus=()), IDLE) is None
    sentence = sharing_sentence(a_fleet(two), IDLE) or ""
    assert "take turns" in sentence
    assert sentence.endswith(START)
    assert "not installed" in (sharing_sentence(a_fleet(two), ABSENT) or "")
    assert "side by side" in (sharing_sentence(a_fleet(two), Mps(True, True, "/p")) or "")
    assert "another user" in (sharing_sentence(a_fleet(two), Mps(True, True, "/p", ours=False)) or "")


def test_an_exclusive_gpu_is_told_before_a_second_run_fails_there() -> None:
    """One run is enough to say it; with MPS it is no trouble."""
    fleet = a_fleet((), gpus=(structs.replace(GPU, compute_mode="exclusive process"),))
    assert "GPU 0 takes one process at a time" in (sharing_sentence(fleet, IDLE) or "")
    assert sharing_sentence(fleet, Mps(True, True, "/p")) is None
