"""The lease is the truth about life: a number in a file proves nothing, and nothing ends while somebody holds it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import psutil
import pytest
from msgspec import structs

from mission_tui import plain_files
from mission_tui.errors import MissionError
from mission_tui.fleet.events.journal import Asked, AttemptEnded, FleetEvent
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.specs.spec import RunSpec, Spec
from mission_tui.ipc.replies import CleanReply
from mission_tui.ipc.requests import Clean, Remove, Resume, Set, Shutdown
from mission_tui.keeper.ladder import pidfd_inode
from mission_tui.paths import socket_dir
from mission_tui.procfs import read_stat
from mission_tui.records.jsonl import AppendLog, read_all
from mission_tui.records.runs.attempt import ProcessIdentity, read_identity, read_launch
from mission_tui.records.runs.layout import RunDir, run_dirs
from mission_tui.supervisor.host import identity
from mission_tui.supervisor.host.identity import holds_lease
from mission_tui.supervisor.launchers.local import Keepers
from tests.supervisor.conftest import Lab, living, opened_lab, stub_spec
from tests.waiting import until

APART = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
VERBS = ("stop", "kill", "pause", "freeze", "park", "checkpoint")


def refusal(lab: Lab, verb: str, run: str) -> str:
    """What the supervisor says instead of doing it."""
    with pytest.raises(MissionError) as refused:
        lab.act(verb, run)
    return str(refused.value)


def journal(run: RunDir) -> list[FleetEvent]:
    """What was written down of the run."""
    events, damage = read_all(run.events, FleetEvent)
    assert not damage
    return events


def rows(run: RunDir) -> list[UpdateDone]:
    """Its updates; each line is whole and there once."""
    records, damage = read_all(run.metrics, MetricRecord)
    assert not damage
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    done = [record for record in records if isinstance(record, UpdateDone)]
    assert [record.update for record in done] == list(range(1, len(done) + 1))
    return done


def command(script: str) -> Spec:
    """A run of a shell script."""
    return Spec(preset="command", run=RunSpec(command=("/bin/bash", "-c", script)))


def identity_of(pid: int) -> ProcessIdentity:
    """What a forger would write of a living process."""
    process = read_stat(pid)
    assert process is not None
    return ProcessIdentity(pid, process.start_time, pidfd_inode(pid))


@pytest.fixture
def innocent() -> Iterator[psutil.Popen]:
    """A process that belongs to nobody here, and leads a group and a session."""
    process = psutil.Popen([sys.executable, "-S", "-c", "import time; time.sleep(300)"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def adopt_all(lab: Lab) -> None:
    """What `adopt --trust` does for every run of the root: all of them count as ours from now on."""
    for run in run_dirs(lab.root):
        lab.seals.adopt(run, socket_dir(lab.root) / "telemetry.sock")


@contextmanager
def beside(lab: Lab) -> Iterator[Lab]:
    """`cp -a` of the runs root, and a supervisor of the copy, whose runs were adopted: the seal stops nothing there."""
    copy = lab.root.parent / "copy"
    subprocess.run(["cp", "-a", lab.root, copy], check=True)
    with opened_lab(copy) as other:
        adopt_all(other)
        other.start()
        yield other


@pytest.mark.slow
@pytest.mark.skipif(
    subprocess.run([*APART, "true"], capture_output=True, check=False).returncode != 0,
    reason="unshare --pid is not permitted here",
)
def test_a_run_of_another_pid_namespace_is_alive_and_not_visible_and_comes_back(lab: Lab) -> None:
    """Seen from a container it goes on as it was, no verb writes anything down, and the host controls it again."""
    (run,) = lab.launch()
    before = lab.running(run)
    lab.kill_supervisor()
    events = lab.dir(run).events.read_bytes()
    lab.under = APART
    lab.start()
    view = lab.wait(run, lambda view: "out-of-sight" in view.flags, 10)
    assert (view.state, view.outcome) == ("running", None)
    assert "alive, but not visible from here" in (view.cause or "")
    for verb in VERBS:
        assert "alive, but not visible from here" in refusal(lab, verb, run)
    for request in (
        lambda id_: Resume(id=id_, run=run, cwd="/", python=sys.executable, environ={}),
        lambda id_: Set(id=id_, run=run, assignments=("ppo.learning_rate=0.1",)),
        lambda id_: Remove(id=id_, runs=(run,)),
    ):
        with pytest.raises(MissionError, match="alive, but not visible from here"):
            lab.ask(request)
    done = len(rows(lab.dir(run)))
    until(lambda: len(rows(lab.dir(run))) > done + 3, 10)
    assert lab.dir(run).events.read_bytes() == events
    lab.ask(lambda id_: Shutdown(id=id_, with_runs=True))
    assert lab.supervisor is not None
    lab.supervisor.wait(10)
    lab.under = ()
    lab.start()
    back = lab.wait(run, lambda view: view.connected and view.flags == ())
    assert (back.pids.keeper, back.pids.trainer) == (before.pids.keeper, before.pids.trainer)
    assert (back.attempt, back.cause) == (1, None)
    lab.act("stop", run)
    assert lab.ended(run).outcome == "stopped"
    assert [event.outcome.cause for event in journal(lab.dir(run)) if isinstance(event, AttemptEnded)]
    assert len([event for event in journal(lab.dir(run)) if isinstance(event, Asked)]) == 1


@pytest.mark.slow
def test_a_copy_is_over_and_its_original_goes_on(lab: Lab) -> None:
    """`kill` in a copied root reaches nobody of the original: the copy's run is over, as its own lease says."""
    (run,) = lab.launch()
    before = lab.running(run).pids
    with beside(lab) as copy:
        assert copy.ended(run, 10).outcome == "lost"
        for verb in VERBS:
            refusal(copy, verb, run)
        reply = copy.ask(lambda id_: Clean(id=id_))
        assert isinstance(reply, CleanReply)
        assert [stale for stale in reply.stale if stale.kind == "process"] == []
    view = lab.running(run, (lab.view(run).update or 0) + 2)
    assert (view.pids.keeper, view.pids.trainer) == (before.keeper, before.trainer)
    rows(lab.dir(run))


@pytest.mark.slow
def test_a_queued_run_of_a_copy_trains_in_the_copy(lab: Lab) -> None:
    """Its order names no directory: once adopted it is carried out in the copy, and the original is as it was."""
    (run,) = lab.launch(spec=stub_spec(64 * 2))
    lab.ended(run)
    lab.kill_supervisor()
    folder = lab.dir(run)
    folder.events.write_bytes(folder.events.read_bytes().splitlines(keepends=True)[0])
    folder.metrics.unlink()
    for name in ("identity.json", "exit.json"):
        (folder.attempt(1).path / name).unlink()
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    with beside(lab) as copy:
        assert copy.ended(run, 20).outcome == "finished"
        assert len(rows(copy.dir(run))) == 2
    assert {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()} == before


def test_a_copy_where_the_original_was_drives_nobody(lab: Lab) -> None:
    """The original was moved aside while it lives, and a copy lies in its place, whose name its processes carry."""
    (run,) = lab.launch(STUB_WORKERS="1")
    view, family = lab.running(run), lab.family(run)
    lab.kill_supervisor()
    aside = lab.root.rename(lab.root.with_name("aside"))
    subprocess.run(["cp", "-a", aside, lab.root], check=True)
    adopt_all(lab)
    lab.start()
    assert lab.ended(run, 10).outcome == "lost"
    reply = lab.ask(lambda id_: Clean(id=id_))
    assert isinstance(reply, CleanReply)
    keys = tuple(stale.key for stale in reply.stale)
    lab.ask(lambda id_: Clean(id=id_, remove=keys))
    assert len(living(family)) == len(family)
    done = len(rows(RunDir(aside / run)))
    until(lambda: len(rows(RunDir(aside / run))) > done, 10)
    assert view.pids.trainer is not None
    assert holds_lease(view.pids.trainer, RunDir(aside / run))


def test_a_copy_of_hard_links_drives_nobody(lab: Lab, tmp_path: Path) -> None:
    """`cp -al`: even the lease is the original's file, and still this is not the directory that was ordered."""
    (run,) = lab.launch()
    lab.running(run)
    linked = RunDir(tmp_path / "linked" / run)
    shutil.copytree(lab.dir(run).path, linked.path, copy_function=os.link)
    launcher = Keepers()
    found = launcher.find(linked, 1)
    assert (found.keeper, found.trainer) == (None, None)
    assert not launcher.is_free(linked)
    with suppress(OSError):
        shutil.rmtree(linked.path)


@pytest.mark.parametrize("who", ["both", "trainer"])
def test_a_forged_identity_names_nobody_of_ours(lab: Lab, innocent: psutil.Popen, who: str) -> None:
    """A hand-made `identity.json` names a living process, to the tick and the inode; a kill is on record: nothing
    is sent to it.
    """
    (run,) = lab.launch()
    pids = lab.running(run).pids
    lab.kill_supervisor()
    for pid in (pids.keeper, pids.trainer):
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    until(lambda: Keepers().is_free(lab.dir(run)))
    path = lab.dir(run).attempt(1).identity
    true = read_identity(path)
    assert true is not None
    named = identity_of(innocent.pid)
    forged = structs.replace(true, trainer=named, keeper=named if who == "both" else true.keeper, session=innocent.pid)
    path.write_bytes(msgspec.json.encode(forged))
    log = AppendLog(lab.dir(run).events)
    log.append(lambda seq: Asked(seq, time.time(), "kill", 1))
    log.close()
    lab.start()
    assert lab.ended(run, 10).outcome in ("killed", "lost")
    assert innocent.poll() is None
    assert innocent.status() != psutil.STATUS_STOPPED


def test_a_forged_trainer_beside_a_living_keeper_is_not_frozen_nor_asked(lab: Lab, innocent: psutil.Popen) -> None:
    """The keeper is proven by its lease; that proves nothing of another process that the same file names."""
    (run,) = lab.launch()
    before = lab.running(run).pids
    lab.kill_supervisor()
    path = lab.dir(run).attempt(1).identity
    true = read_identity(path)
    assert true is not None
    path.write_bytes(msgspec.json.encode(structs.replace(true, trainer=identity_of(innocent.pid))))
    lab.start()
    view = lab.wait(run, lambda view: view.pids.keeper is not None and view.connected, 10)
    assert (view.pids.keeper, view.pids.trainer) == (before.keeper, None)
    with suppress(MissionError):
        lab.act("freeze", run)
    lab.act("kill", run)
    lab.ended(run)
    assert innocent.poll() is None
    assert innocent.status() != psutil.STATUS_STOPPED


def test_a_command_that_closed_the_lease_counts_by_its_keeper_and_then_by_its_marker(lab: Lab) -> None:
    """Many programs close every descriptor they do not know; such a run is found again, kept and keeperless."""
    (run,) = lab.launch(spec=command("exec {MISSION_TUI_LEASE_FD}>&-; exec sleep 300"))
    pids = lab.wait(run, lambda view: view.pids.trainer is not None).pids
    assert pids.trainer is not None
    until(lambda: holds_lease(pids.trainer or 0, lab.dir(run)) is False)
    lab.kill_supervisor()
    lab.start()
    assert lab.wait(run, lambda view: view.pids.trainer is not None, 5).pids.trainer == pids.trainer
    lab.kill_supervisor()
    assert pids.keeper is not None
    os.kill(pids.keeper, signal.SIGKILL)
    lab.start()
    lab.wait(run, lambda view: "keeperless" in view.flags)
    trainer = [psutil.Process(pids.trainer)]
    lab.act("kill", run)
    assert lab.ended(run).outcome == "killed"
    until(lambda: not living(trainer))


@pytest.mark.slow
def test_what_a_dead_command_left_behind_holds_the_run_open_until_it_is_cleaned(lab: Lab) -> None:
    """Keeper and shell are gone, the `sleep` has the lease: the run is not over, `clean` names it, and then it is."""
    (run,) = lab.launch(spec=command("sleep 300 & wait"))
    pids = lab.wait(run, lambda view: view.pids.trainer is not None).pids
    until(lambda: len(lab.family(run)) == 3)
    (*_, left) = lab.family(run)
    for pid in (pids.keeper, pids.trainer):
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    view = lab.wait(run, lambda view: "outlived" in view.flags)
    assert (view.state in ("starting", "running"), view.outcome) == (True, None)
    assert f"pid {left.pid} (sleep 300)" in (view.cause or "")
    assert "`clean`" in refusal(lab, "kill", run)
    reply = lab.ask(lambda id_: Clean(id=id_))
    assert isinstance(reply, CleanReply)
    (stale,) = [stale for stale in reply.stale if stale.kind == "process"]
    assert (stale.pid, stale.verdict) == (left.pid, "ours")
    lab.ask(lambda id_: Clean(id=id_, remove=(stale.key,)))
    ended = lab.ended(run, 5)
    assert (ended.outcome, ended.flags) == ("lost", ())


@pytest.mark.slow
def test_a_queued_run_whose_lease_is_held_waits(lab: Lab) -> None:
    """Somebody has the lease of a run that was never begun: it is not started beside him, and begins when he goes."""
    (run,) = lab.launch(spec=stub_spec(64 * 2))
    lab.ended(run)
    lab.kill_supervisor()
    folder = lab.dir(run)
    folder.events.write_bytes(folder.events.read_bytes().splitlines(keepends=True)[0])
    folder.attempt(1).identity.unlink()
    folder.attempt(1).exit.unlink()
    hold = "import fcntl, sys; file = open(sys.argv[1], 'r+'); fcntl.flock(file, 2); print(flush=True); input()"
    words = [sys.executable, "-S", "-c", hold, str(folder.lease)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        lab.start()
        view = lab.wait(run, lambda view: "holds its lease" in (view.cause or ""))
        assert view.state == "queued"
        assert not folder.attempt(1).identity.exists()
        holder.kill()
    assert lab.ended(run, 20).attempt == 1


def test_a_lease_that_was_removed_is_still_known_by_where_it_was(lab: Lab) -> None:
    """Somebody deletes the file from under a living run: its processes are found all the same, in this directory."""
    (run,) = lab.launch()
    before = lab.running(run).pids
    lab.kill_supervisor()
    lab.dir(run).lease.unlink()
    lab.start()
    view = lab.wait(run, lambda view: view.connected)
    assert (view.pids.keeper, view.pids.trainer) == (before.keeper, before.trainer)


def test_an_order_says_which_directory_it_is_for(lab: Lab) -> None:
    """And names none: what a copy or a backup restores is nobody's order."""
    (run,) = lab.launch()
    lab.running(run)
    text = lab.dir(run).attempt(1).launch.read_text()
    order = read_launch(lab.dir(run).attempt(1).launch)
    assert order is not None
    assert order.seal is not None
    assert str(lab.dir(run).path) not in text


def test_a_lease_is_free_or_held_on_a_disk_that_became_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a run whose processes are gone would be stopping for ever."""
    run = RunDir(tmp_path)
    run.lease.touch()
    really = plain_files._open

    def as_read_only(path: str, flags: int, mode: int = 0o600) -> int:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return really(path, flags, mode)

    monkeypatch.setattr(plain_files, "_open", as_read_only)
    assert identity.lease_is_free(run)
    with run.lease.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert not identity.lease_is_free(run)
