"""Leftovers of dead runs: exactly those are named, only sure ones are removed, everybody else is left alone."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import psutil
import pytest

from mission_tui.ipc.replies import CleanReply, LeftoverRow
from mission_tui.ipc.requests import Clean
from mission_tui.paths import socket_dir
from mission_tui.records.runs.attempt import read_launch
from tests.supervisor.conftest import Lab, living
from tests.waiting import until


def clean(lab: Lab, *keys: str) -> tuple[LeftoverRow, ...]:
    """What `clean` says, after removing `keys`."""
    reply = lab.ask(lambda id_: Clean(id=id_, remove=keys))
    assert isinstance(reply, CleanReply)
    return tuple(stale for stale in reply.stale if stale.kind == "process")


def orphaned(lab: Lab, run: str) -> list[psutil.Process]:
    """The env workers of the run after SIGKILL of its keeper and trainer."""
    view = lab.running(run)
    family = lab.family(run)
    for pid in (view.pids.keeper, view.pids.trainer):
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    lab.ended(run)
    workers = [process for process in family if process.pid not in (view.pids.keeper, view.pids.trainer)]
    assert len(living(workers)) == len(workers)
    return workers


@pytest.mark.slow
def test_workers_of_a_dead_run_are_named_and_removed_and_nobody_else(lab: Lab) -> None:
    """After SIGKILL of keeper and trainer: exactly their workers are listed, and removed; a healthy run stays."""
    dead, healthy = lab.launch(STUB_WORKERS="3")[0], lab.launch(STUB_WORKERS="2")[0]
    lab.running(healthy)
    workers = orphaned(lab, dead)
    listed = clean(lab)
    assert {stale.pid for stale in listed} == {worker.pid for worker in workers}
    assert {(stale.run, stale.verdict, stale.removed) for stale in listed} == {(dead, "ours", False)}
    removed = clean(lab, *(stale.key for stale in listed))
    assert all(stale.removed for stale in removed)
    assert not living(workers)
    assert clean(lab) == ()
    assert len(lab.family(healthy)) == 4
    journal = (lab.root / ".supervisor" / "events.jsonl").read_text()
    assert journal.count("leftover_removed") == 3


@pytest.mark.slow
def test_leftovers_are_found_after_a_restart_too(lab: Lab) -> None:
    """Keeper, trainer and supervisor all killed: the fresh supervisor finds the same workers."""
    (run,) = lab.launch(STUB_WORKERS="2")
    workers = orphaned(lab, run)
    lab.kill_supervisor()
    lab.start()
    assert {stale.pid for stale in clean(lab)} == {worker.pid for worker in workers}


def test_a_marked_stranger_is_listed_but_never_killed(lab: Lab) -> None:
    """A process with the run's marker in another session, not below the run: unverifiable, and it survives `clean`."""
    (run,) = lab.launch(STUB_WORKERS="1")
    orphaned(lab, run)
    order = read_launch(lab.dir(run).attempt(1).launch)
    assert order is not None
    stranger = psutil.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(60)"],
        env=order.env | {"MISSION_TUI_RUN_DIR": str(lab.dir(run).path)},
        start_new_session=True,
    )
    try:
        # Between fork and exec it carries the marker of nobody yet.
        listed = until(lambda: [stale for stale in clean(lab) if stale.pid == stranger.pid], what="the stranger listed")
        assert {stale.verdict for stale in listed} == {"unverifiable"}
        after = clean(lab, *(stale.key for stale in clean(lab)))
        assert [stale.removed for stale in after if stale.pid == stranger.pid] == [False]
        assert stranger.is_running()
    finally:
        stranger.kill()
        stranger.wait()


def test_a_wrong_nonce_is_nobody_of_ours(lab: Lab) -> None:
    """Somebody exports another run's variables by hand, with a guessed nonce: not even listed."""
    (run,) = lab.launch(STUB_WORKERS="1")
    orphaned(lab, run)
    order = read_launch(lab.dir(run).attempt(1).launch)
    assert order is not None
    stranger = psutil.Popen(
        ["sleep", "60"], env=order.env | {"MISSION_TUI_RUN_DIR": str(lab.dir(run).path), "MISSION_TUI_NONCE": "0" * 32}
    )
    try:
        assert stranger.pid not in {stale.pid for stale in clean(lab)}
    finally:
        stranger.kill()
        stranger.wait()


def test_a_key_of_a_process_that_is_gone_kills_nobody(lab: Lab) -> None:
    """A key names a process by pid and start time: another one with its number does not answer to it."""
    (run,) = lab.launch(STUB_WORKERS="1")
    (worker,) = orphaned(lab, run)
    (listed,) = clean(lab)
    kind, pid, start = listed.key.split(":")
    clean(lab, f"{kind}:{pid}:{int(start) - 1}")
    assert living([worker])


def test_a_dead_socket_of_this_root_is_listed_and_removed(lab: Lab) -> None:
    """A stray socket beside the served ones is dead; the served ones are never listed."""
    stray = socket_dir(lab.root) / "stray.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as abandoned:
        abandoned.bind(str(stray))

    def sockets(*keys: str) -> list[tuple[str | None, bool]]:
        reply = lab.ask(lambda id_: Clean(id=id_, remove=keys))
        assert isinstance(reply, CleanReply)
        return [(stale.name, stale.removed) for stale in reply.stale if stale.kind == "socket"]

    assert sockets() == [(str(stray), False)]
    assert sockets(f"socket:{stray}") == [(str(stray), True)]
    assert sockets() == []
    assert lab.answers()


def test_sockets_of_a_vanished_root_are_swept_at_the_start(idle_lab: Lab, tmp_path: Path) -> None:
    """The folder of a runs root that no longer exists goes; those of living roots and unnamed ones stay."""
    gone, kept, unnamed = (socket_dir(tmp_path / name) for name in ("vanished", "kept", "unnamed"))
    (tmp_path / "kept").mkdir()
    for folder, name in ((gone, "vanished"), (kept, "kept"), (unnamed, None)):
        folder.mkdir(mode=0o700, parents=True)
        if name is not None:
            (folder / "root").write_text(str(tmp_path / name))
    idle_lab.start()
    assert [folder.exists() for folder in (gone, kept, unnamed)] == [False, True, True]
    (kept / "root").unlink()
    kept.rmdir()
    unnamed.rmdir()


def test_a_session_of_a_forkserver_is_covered(lab: Lab) -> None:
    """Processes forked by a helper that the trainer started carry the marker too and are listed."""
    (run,) = lab.launch(STUB_FORKS="2")
    workers = orphaned(lab, run)
    assert len(workers) == 3
    listed = clean(lab)
    assert {stale.pid for stale in listed} == {worker.pid for worker in workers}
    clean(lab, *(stale.key for stale in listed))
    until(lambda: not living(workers))
