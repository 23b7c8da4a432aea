"""`keep.on_reboot`: runs that a restart of the machine took go on by themselves, once, in order, and never for ever."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, FleetEvent, RestartDue
from mission_tui.fleet.history.restart_policy import REBOOTS
from mission_tui.fleet.specs.spec import LimitsKeep, RunSpec, Spec
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Resume
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import read_launch, read_spec, write_spec
from tests.full_disk import fill, small_disk
from tests.rebooting import forget_boot
from tests.supervisor.conftest import Lab, RunsRoot, living, opened_lab, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab
from tests.waiting import until


def resuming(spec: Spec | None = None) -> Spec:
    """The stub's spec, to go on after a reboot."""
    spec = spec or stub_spec()
    return structs.replace(spec, keep=structs.replace(spec.keep, on_reboot="resume"))


def saved(lab: RunsRoot, run: str, update: int = 2) -> str:
    """A checkpoint of the run, which trains on."""
    lab.running(run, update)
    before = lab.view(run).last_checkpoint
    lab.act("checkpoint", run)
    view = lab.wait(run, lambda view: view.last_checkpoint != before)
    assert view.last_checkpoint is not None
    return view.last_checkpoint


def power_cut(lab: RunsRoot) -> None:
    """Nobody of this runs root lives on, and the machine has another boot id."""
    lab.power_cut()
    forget_boot(lab.root)


def reboot(lab: RunsRoot) -> None:
    """A power cut, and a supervisor after it."""
    power_cut(lab)
    lab.start()


def events(lab: RunsRoot, run: str) -> list[FleetEvent]:
    return read_all(lab.dir(run).events, FleetEvent)[0]


@pytest.mark.slow
def test_a_run_goes_on_from_its_last_checkpoint_and_says_so(lab: Lab) -> None:
    """Journaled as lost in the reboot and as due, then an attempt that counts it; `leave` stays lost, and says why."""
    (resumes,) = lab.launch(spec=resuming(), name="resumes")
    (stays,) = lab.launch(name="stays")
    checkpoint = saved(lab, resumes)
    saved(lab, stays)
    reboot(lab)
    view = lab.wait(resumes, lambda view: view.attempt == 2 and view.state == "running" and view.connected)
    assert [each.after for each in view.again] == ["reboot"]
    assert view.origins[0].sentence.startswith(f"resumed by itself after a reboot from {checkpoint}")
    (ended,) = (event for event in events(lab, resumes) if isinstance(event, AttemptEnded))
    assert ended.rebooted
    (due,) = (event for event in events(lab, resumes) if isinstance(event, RestartDue))
    assert (due.after, due.number, due.most) == ("reboot", 1, REBOOTS)
    starts = [event for event in events(lab, resumes) if isinstance(event, AttemptStarting)]
    assert [(start.checkpoint, start.restart, start.reboots) for start in starts] == [(None, 0, 0), (checkpoint, 0, 1)]
    left = lab.view(stays)
    assert (left.state, left.outcome, left.rebooted, left.attempt) == ("ended", "lost", True, 1)
    assert left.cause == "the machine was restarted while it ran"


def test_once_also_when_the_supervisor_dies_in_between(sim: SimulatedLab) -> None:
    """What was journaled is neither decided again nor begun twice, and no attempt has a twin."""
    (run,) = sim.launch(spec=resuming())
    saved(sim, run)
    reboot(sim)
    sim.kill_supervisor()
    sim.start()
    sim.wait(run, lambda view: view.attempt == 2 and view.state == "running" and view.connected)
    sim.kill_supervisor()
    sim.start()
    assert sim.running(run).attempt == 2
    assert sum(isinstance(event, RestartDue) for event in events(sim, run)) == 1


def test_the_oldest_goes_first(sim: SimulatedLab) -> None:
    """One after the other, in the order in which they were launched."""
    runs = [sim.launch(spec=resuming(), name=name)[0] for name in ("first", "second", "third")]
    for run in runs:
        saved(sim, run)
    reboot(sim)
    for run in runs:
        sim.wait(run, lambda view: view.attempt == 2)
    begun = {run: [it.t for it in events(sim, run) if isinstance(it, AttemptStarting)][1] for run in runs}
    assert sorted(runs, key=begun.__getitem__) == runs


def test_what_was_stopped_or_stood_is_left(sim: SimulatedLab) -> None:
    """Nobody asked a paused run to train; a person may still resume it."""
    (run,) = sim.launch(spec=resuming())
    saved(sim, run)
    sim.act("pause", run)
    sim.wait(run, lambda view: view.state == "paused")
    reboot(sim)
    assert sim.ended(run).rebooted
    assert isinstance(sim.ask(lambda id_: Resume(id=id_, run=run)), Accepted)
    view = sim.running(run)
    assert (view.attempt, view.again) == (2, ())


@pytest.mark.slow
def test_a_machine_that_goes_down_in_order_ended_nothing_on_request(lab: Lab) -> None:
    """SIGTERM to everybody: the run saves and stops, nobody had asked for it, and the next boot goes on from there."""
    (run,) = lab.launch(spec=resuming())
    lab.running(run, 3)
    (keeper, *others) = lab.family(run)
    lab.kill_supervisor()
    keeper.send_signal(signal.SIGTERM)
    until(lambda: not living([keeper, *others]), 10)
    forget_boot(lab.root)
    lab.start()
    view = lab.wait(run, lambda view: view.attempt == 2 and view.state == "running")
    (ended,) = (event for event in events(lab, run) if isinstance(event, AttemptEnded))
    assert (ended.rebooted, ended.outcome.cause) == (True, "ended when the machine was shut down")
    assert [each.after for each in view.again] == ["reboot"]


def test_what_finished_unseen_before_the_boot_has_finished(sim: SimulatedLab) -> None:
    """Nobody was there to journal its end, and the boot had no part in it."""
    (run,) = sim.launch(spec=resuming(stub_spec(64 * 40)))
    sim.running(run, 3)
    sim.kill_supervisor()
    sim.until(sim.dir(run).attempt(1).exit.exists, 20)
    forget_boot(sim.root)
    sim.start()
    view = sim.ended(run)
    assert (view.outcome, view.rebooted, view.attempt) == ("finished", False, 1)


@pytest.mark.slow
def test_a_command_goes_on_by_its_resume_command(lab: Lab, tmp_path: Path) -> None:
    """It has no checkpoint that anybody knows of: its own second command is run, once."""
    began = tmp_path / "began"
    words = ("sh", "-c", f"echo $MISSION_TUI_ATTEMPT >> {began}; sleep 600")
    spec = Spec(preset="command", run=RunSpec(command=words, resume_command=words))
    (run,) = lab.launch(spec=resuming(spec))
    until(lambda: began.exists() and began.read_text() == "1\n", 10)
    # Of one whose identity is not written yet nobody will know that it had begun: it would begin as attempt 1 again.
    lab.wait(run, lambda view: view.pids.trainer)
    reboot(lab)
    until(lambda: began.read_text() == "1\n2\n", 20)
    lab.act("kill", run)


def test_the_fourth_reboot_in_a_row_parks_it(sim: SimulatedLab) -> None:
    """None of them after an hour of training: the machine has a trouble that no run cures."""
    (run,) = sim.launch(spec=resuming())
    saved(sim, run)
    for attempt in range(2, REBOOTS + 2):
        reboot(sim)
        sim.wait(run, lambda view, attempt=attempt: view.attempt == attempt and view.state == "running")  # type: ignore[misc]
    reboot(sim)
    view = sim.wait(run, lambda view: view.state == "parked")
    assert "restarted 4 times in a row" in (view.cause or "")
    assert [each.after for each in view.again] == ["reboot"] * REBOOTS


def test_a_failure_after_a_reboot_is_judged_by_its_own_rule(sim: SimulatedLab) -> None:
    """`keep.restart` is off: a crash of the resumed attempt ends the run."""
    (run,) = sim.launch(spec=resuming(), STUB_CRASHES_AFTER="40")
    saved(sim, run)
    reboot(sim)
    assert sim.ended(run, 20).kind == "crash"
    assert sim.view(run).attempt == 2


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[Lab]:
    """A runs root on a disk of 64 MiB with a supervisor."""
    with small_disk(tmp_path / "disk", 64 << 20) as disk, opened_lab(disk / "runs") as lab:
        lab.start()
        yield lab


@pytest.mark.slow
def test_it_waits_for_the_room_that_it_asks_for(crowded: Lab) -> None:
    """`keep.limits.disk_free` holds what begins by itself, with the reason, until there is as much."""
    spec = resuming()
    spec = structs.replace(spec, keep=structs.replace(spec.keep, limits=LimitsKeep(disk_free=50 * 10**6)))
    (run,) = crowded.launch(spec=spec)
    saved(crowded, run)
    power_cut(crowded)
    ballast = fill(crowded.root.parent, leave_bytes=40 << 20)
    crowded.start()
    view = crowded.wait(run, lambda view: "asks for 50 MB" in (view.cause or ""))
    assert (view.state, view.attempt) == ("queued", 1)
    ballast.unlink()
    assert crowded.wait(run, lambda view: view.attempt == 2).state != "queued"


def test_it_waits_for_a_machine_that_is_not_ready(sim: SimulatedLab) -> None:
    """A driver that is not there yet right after the boot is waited for, with the reason; nothing is parked at once."""
    (run,) = sim.launch(spec=resuming())
    saved(sim, run)
    power_cut(sim)
    spec = read_spec(sim.dir(run).spec)
    write_spec(sim.dir(run).spec, structs.replace(spec, run=structs.replace(spec.run, device="cuda:7")))
    order = read_launch(sim.dir(run).attempt(1).launch)
    assert order is not None
    sim.seals.write_order(sim.dir(run), order)
    sim.start()
    view = sim.wait(run, lambda view: "waits for the machine" in (view.cause or ""))
    assert (view.state, view.attempt) == ("queued", 1)
    sim.act("stop", run)


@pytest.mark.slow
def test_ending_it_while_it_waits_calls_it_off(crowded: Lab) -> None:
    """`stop` means: not after this reboot either; the next supervisor knows."""
    spec = resuming()
    spec = structs.replace(spec, keep=structs.replace(spec.keep, limits=LimitsKeep(disk_free=50 * 10**6)))
    (run,) = crowded.launch(spec=spec)
    saved(crowded, run)
    power_cut(crowded)
    fill(crowded.root.parent, leave_bytes=40 << 20)
    crowded.start()
    crowded.wait(run, lambda view: view.restart)
    crowded.act("stop", run)
    crowded.kill_supervisor()
    crowded.start()
    view = crowded.view(run)
    assert (view.state, view.attempt, view.restart) == ("ended", 1, None)
