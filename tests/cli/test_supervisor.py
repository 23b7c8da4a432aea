"""`supervisor status` and `supervisor stop`."""

from __future__ import annotations

import os
import signal

import pytest

from tests.shell import Shell
from tests.waiting import until


def test_nobody_is_started_by_asking(quick: Shell) -> None:
    """`supervisor status` and `stop` without a supervisor say so and start none: 69, and 0 for what is so already."""
    asked = quick.typed("supervisor", "status")
    assert asked.returncode == 69
    assert "no supervisor" in asked.stderr
    assert quick.typed("supervisor", "stop").returncode == 0
    assert not quick.root.exists()


@pytest.mark.slow
def test_the_first_client_starts_one_and_stop_ends_it(quick: Shell) -> None:
    """`status` starts a supervisor; after `supervisor stop` it is gone."""
    quick.json("status")
    pid = quick.json("supervisor", "status")["pid"]
    assert [process.pid for process in quick.processes() if "mission_tui.supervisor" in process.cmdline()] == [pid]
    assert quick.typed("supervisor", "stop").returncode == 0
    assert quick.typed("supervisor", "status").returncode == 69


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_runs_outlive_the_supervisor_unless_told_otherwise(quick: Shell) -> None:
    """`supervisor stop` leaves a run training; `--with-runs` stops it first, with a checkpoint."""
    (run,) = quick.launch("tiny")
    quick.advancing(run)
    trainer = quick.view(run)["pids"]["trainer"]
    assert quick.typed("supervisor", "stop").returncode == 0
    assert until(lambda: quick.view(run)["pids"]["trainer"], 5, "the next supervisor found the trainer") == trainer
    ended = quick.json("supervisor", "stop", "--with-runs", timeout_s=90)
    assert [it["id"] for it in ended["runs"]] == [run]
    assert quick.view(run)["outcome"] == "stopped"


@pytest.mark.slow
def test_one_that_is_stopped_by_a_signal_is_running(quick: Shell) -> None:
    """Neither `status` nor `stop` says that there is none: both name the process, and what lets it go on."""
    quick.json("status")
    pid = quick.json("supervisor", "status")["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        said = [quick.typed("supervisor", verb) for verb in ("status", "stop")]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert [one.returncode for one in said] == [69, 69]
    for one in said:
        assert f"`kill -CONT {pid}`" in one.stderr
    assert quick.json("supervisor", "status")["pid"] == pid
