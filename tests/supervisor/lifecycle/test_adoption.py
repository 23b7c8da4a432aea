"""Killing supervisors and keepers at will: runs go on, the next supervisor tells what the files say."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from mission_tui.errors import MissionError
from mission_tui.fleet.events.journal import Asked, AttemptEnded, AttemptStarting, FileDamaged, FleetEvent, KeeperLost
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.events.outcome import Killed
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import DetailsReply
from mission_tui.ipc.requests import GetDetails
from mission_tui.records.jsonl import AppendLog, read_all
from mission_tui.records.runs.attempt import read_exit, read_launch
from mission_tui.supervisor.launchers.local import PATIENCE_S
from tests.supervisor.conftest import STUB, Lab, RunsRoot, living, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab
from tests.waiting import until


def updates(lab: RunsRoot, run: str) -> list[UpdateDone]:
    """The update rows of the run's file, which must be whole."""
    records, damage = read_all(lab.dir(run).metrics, MetricRecord)
    assert not damage
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    return [record for record in records if isinstance(record, UpdateDone)]


def kill(pid: int | None) -> None:
    """SIGKILL a process that must exist."""
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def test_four_runs_survive_a_killed_supervisor_and_are_adopted(lab: Lab) -> None:
    """The next supervisor has the same four trainers within three seconds, and agrees with their files."""
    runs = lab.launch(4)
    before = {run: lab.running(run).pids for run in runs}
    lab.kill_supervisor()
    done = {run: len(updates(lab, run)) for run in runs}
    until(lambda: all(len(updates(lab, run)) > done[run] for run in runs), 5, "runs go on without a supervisor")
    lab.start()
    for run in runs:
        view = lab.wait(run, lambda view: view.state == "running" and view.connected, 3)
        assert (view.pids.keeper, view.pids.trainer) == (before[run].keeper, before[run].trainer)
        assert view.attempt == 1
    lab.act("stop", *runs)
    for run in runs:
        shown, rows = lab.ended(run), updates(lab, run)
        assert (shown.outcome, shown.update, shown.timesteps) == ("stopped", rows[-1].update, rows[-1].timesteps)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_supervisors_killed_at_random_moments_lose_and_double_nothing(lab: Lab) -> None:
    """Eight supervisors killed while runs are launched and stopped: what was acknowledged holds. Part `kills` of the
    campaign kills five hundred."""
    dice = random.Random(7)
    known: list[str] = []
    stopped: set[str] = set()
    for _ in range(8):
        assert lab.supervisor is not None
        threading.Timer(dice.uniform(0.05, 0.6), lab.supervisor.kill).start()
        with suppress(MissionError, OSError):
            while True:
                known += lab.launch(STUB_UPDATE_S="0.02") if len(known) < 6 else []
                chosen = dice.choice(known)
                if lab.view(chosen).state == "running" and chosen not in stopped:
                    lab.act("stop", chosen)
                    stopped.add(chosen)
        lab.supervisor.wait(5)
        lab.start()
    views = {view.id: view for view in lab.snapshot().runs}
    assert set(known) <= set(views)
    for run in known:
        trainers = [
            process for process in lab.processes() if str(STUB) in process.cmdline() and process_of(process) == run
        ]
        assert len(trainers) <= 1
        if run in stopped:
            assert lab.ended(run).outcome == "stopped"
        else:
            assert lab.wait(run, lambda view: view.state in ("running", "ended")).attempt == 1
        updates(lab, run)
        events, damage = read_all(lab.dir(run).events, FleetEvent)
        assert not damage
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert len([event for event in events if isinstance(event, AttemptStarting)]) == 1


def process_of(process: psutil.Process) -> str:
    """The run that a stub trainer works for."""
    return Path(process.cmdline()[-2]).name


def test_a_rebuilt_snapshot_equals_the_one_before(sim: SimulatedLab) -> None:
    """Ended runs look the same to a fresh supervisor as to the one that saw them end; bytes are counted in time."""
    runs = [*sim.launch(spec=stub_spec(64 * 3)), *sim.launch(STUB_WORKERS="1")]
    sim.ended(runs[0])
    sim.running(runs[1])
    sim.act("kill", runs[1])
    sim.ended(runs[1])
    before = uncounted(sim)
    sim.kill_supervisor()
    sim.start()
    assert uncounted(sim) == before


def uncounted(lab: RunsRoot) -> list[RunView]:
    """The runs without their bytes on disk, which are counted when there is time."""
    return [structs.replace(view, size_bytes=None) for view in lab.snapshot().runs]


def test_a_run_that_ended_unseen_is_classified_from_its_records(sim: SimulatedLab) -> None:
    """Trainer killed while no supervisor was there: the next one reads the cause from the keeper's exit record."""
    (run,) = sim.launch()
    view = sim.running(run)
    sim.kill_supervisor()
    sim.kill(view.pids.trainer)
    sim.until(sim.dir(run).attempt(1).exit.exists, 5)
    sim.start()
    ended = sim.ended(run, 3)
    assert (ended.outcome, ended.kind) == ("failed", "crash")


def test_a_run_that_ended_unseen_ended_when_its_keeper_saw_it(sim: SimulatedLab) -> None:
    """Ten minutes without a supervisor: the run is not said to have ended just now, by nobody and nowhere."""
    (run,) = sim.launch()
    view = sim.running(run)
    sim.kill_supervisor()
    sim.kill(view.pids.trainer)
    sim.until(sim.dir(run).attempt(1).exit.exists, 5)
    record = read_exit(sim.dir(run).attempt(1).exit)
    assert record is not None
    sim.sleep(600)
    sim.start()
    assert sim.ended(run, 3).ended_t == record.ended_t
    details = sim.ask(lambda id_: GetDetails(id=id_, run=run))
    assert isinstance(details, DetailsReply)
    assert details.attempts[0].ended_t == record.ended_t
    sim.kill_supervisor()
    sim.sleep(60)
    sim.start()
    assert sim.view(run).ended_t == record.ended_t


def test_without_its_keeper_a_run_goes_on_keeperless_and_still_stops(shared_lab: Lab) -> None:
    """SIGKILL of the keeper: the trainer trains on, the flag is shown and journaled, a stop saves."""
    (run,) = shared_lab.launch(STUB_WORKERS="1")
    view = shared_lab.running(run)
    kill(view.pids.keeper)
    flagged = shared_lab.wait(run, lambda view: "keeperless" in view.flags)
    assert flagged.state == "running"
    assert flagged.pids.trainer == view.pids.trainer
    shared_lab.running(run, (flagged.update or 0) + 3)
    shared_lab.act("stop", run)
    assert shared_lab.ended(run).outcome == "stopped"
    assert any(isinstance(event, KeeperLost) for event in read_all(shared_lab.dir(run).events, FleetEvent)[0])


def test_a_keeperless_run_is_killed_by_the_supervisor_itself(shared_lab: Lab) -> None:
    """Kill without a keeper: the trainer's group and its marked workers are gone, and it is on record as killed."""
    (run,) = shared_lab.launch(STUB_WORKERS="2")
    view = shared_lab.running(run)
    family = shared_lab.family(run)
    kill(view.pids.keeper)
    shared_lab.wait(run, lambda view: "keeperless" in view.flags)
    shared_lab.act("kill", run)
    assert shared_lab.ended(run).outcome == "killed"
    until(lambda: not living(family))
    (ended,) = [
        event for event in read_all(shared_lab.dir(run).events, FleetEvent)[0] if isinstance(event, AttemptEnded)
    ]
    assert isinstance(ended.outcome, Killed)


def test_keeper_and_supervisor_both_killed(sim: SimulatedLab) -> None:
    """A fresh supervisor finds the trainer without its keeper: keeperless; then the trainer's death has a cause."""
    (run,) = sim.launch()
    view = sim.running(run)
    sim.kill_supervisor()
    sim.kill(view.pids.keeper)
    sim.start()
    sim.wait(run, lambda view: "keeperless" in view.flags and view.connected, 3)
    sim.kill(view.pids.trainer)
    ended = sim.ended(run, 3)
    assert ended.outcome == "lost"
    assert ended.cause


def test_another_boot_means_lost(lab: Lab) -> None:
    """A run whose processes belong to an earlier boot is lost by the restart, and no pid of it is trusted."""
    (run,) = lab.launch(STUB_WORKERS="1")
    view = lab.running(run)
    (*_, worker) = lab.family(run)
    lab.kill_supervisor()
    kill(view.pids.keeper)
    kill(view.pids.trainer)
    identity = lab.dir(run).attempt(1).identity
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    identity.write_text(identity.read_text().replace(boot, "00000000-0000-0000-0000-000000000000"))
    lab.start()
    ended = lab.ended(run, 3)
    assert ended.outcome == "lost"
    assert "restarted" in (ended.cause or "")
    assert living([worker]), "a process of a boot that was not verified must not be signalled"


def test_a_kill_that_was_on_record_and_not_sent_is_carried_out(sim: SimulatedLab) -> None:
    """A supervisor that dies between the journal and the signal leaves a run that the next one kills, keeper or not."""
    kept, keeperless = sim.launch(2)
    pids = {run: sim.running(run).pids for run in (kept, keeperless)}
    sim.kill(pids[keeperless].keeper)
    sim.wait(keeperless, lambda view: "keeperless" in view.flags, 3)
    sim.kill_supervisor()
    for run in (kept, keeperless):
        journal = AppendLog(sim.dir(run).events)
        journal.append(lambda seq: Asked(seq, time.time(), "kill", 1))
        journal.close()
    sim.start()
    assert {sim.ended(run, 5).outcome for run in (kept, keeperless)} == {"killed"}


def test_a_kill_on_record_waits_for_a_keeper_that_is_not_known_yet(sim: SimulatedLab) -> None:
    """Whoever is killed before the supervisor knows its processes is killed as soon as it does."""
    (run,) = sim.launch()
    sim.running(run)
    sim.kill_supervisor()
    identity = sim.dir(run).attempt(1).identity
    unsaid = identity.rename(identity.with_suffix(".later"))
    journal = AppendLog(sim.dir(run).events)
    journal.append(lambda seq: Asked(seq, time.time(), "kill", 1))
    journal.close()
    sim.start()
    assert sim.view(run).state == "stopping"
    unsaid.rename(identity)
    assert sim.ended(run, 5).outcome == "killed"


def test_damaged_directories_are_shown_and_hurt_nobody(sim: SimulatedLab) -> None:
    """Broken spec, journal, metrics or exit record, or nothing at all: shown as damaged, and once on record."""
    healthy, no_spec, no_journal, odd_metrics, odd_exit = (sim.launch(spec=stub_spec(64))[0] for _ in range(5))
    for run in (healthy, no_spec, no_journal, odd_metrics, odd_exit):
        sim.ended(run)
    sim.kill_supervisor()
    sim.dir(no_spec).spec.write_text("[env\n")
    sim.dir(no_journal).events.write_bytes(b"\x00\x01 not a journal\n")
    sim.dir(odd_metrics).metrics.unlink()
    sim.dir(odd_metrics).metrics.mkdir()
    sim.dir(odd_exit).events.write_bytes(sim.dir(odd_exit).events.read_bytes().rsplit(b"\n", 2)[0] + b"\n")
    sim.dir(odd_exit).attempt(1).exit.write_text("{")
    empty, impossible = "20200101-000000-empty-0000", "99999999-999999-odd-0000"
    (sim.root / empty).mkdir()
    (sim.root / impossible / "events.jsonl").mkdir(parents=True)
    (sim.root / "not-a-run").mkdir()
    for _ in range(2):
        sim.start()
        views = {view.id: view for view in sim.snapshot().runs}
        assert set(views) == {healthy, no_spec, no_journal, odd_metrics, odd_exit, empty, impossible}
        assert {view.state for view in views.values()} == {"ended"}
        assert {run for run in views if not views[run].flags} == {healthy}
        assert {views[run].outcome for run in (no_spec, no_journal, odd_metrics, odd_exit)} == {"finished"}
        sim.kill_supervisor()
    for run in (no_spec, odd_metrics, odd_exit):
        events = read_all(sim.dir(run).events, FleetEvent)[0]
        assert len([event for event in events if isinstance(event, FileDamaged)]) == 1


def test_an_ended_run_whose_rows_were_overwritten_is_damaged(sim: SimulatedLab) -> None:
    """Its dashes are no run that never wrote a row; what a killed writer leaves of its last line is no damage."""
    overwritten, torn = (sim.launch(spec=stub_spec(64))[0] for _ in range(2))
    for run in (overwritten, torn):
        sim.ended(run)
    sim.kill_supervisor()
    sim.dir(overwritten).metrics.write_bytes(b"\x8f\n" * 300)
    with sim.dir(torn).metrics.open("ab") as file:
        file.write(b'{"kind": "upd')
    for _ in range(2):
        sim.start()
        assert (sim.view(overwritten).flags, sim.view(torn).flags) == (("damaged",), ())
        sim.kill_supervisor()
    events = read_all(sim.dir(overwritten).events, FleetEvent)[0]
    assert [event.file for event in events if isinstance(event, FileDamaged)] == ["metrics.jsonl"]


def test_a_queued_run_of_a_killed_supervisor_begins(sim: SimulatedLab) -> None:
    """A directory that was made but not begun when the supervisor died is started by the next one, once."""
    (run,) = sim.launch(spec=stub_spec(64 * 2))
    sim.ended(run)
    sim.kill_supervisor()
    folder = sim.dir(run)
    first = folder.events.read_bytes().splitlines(keepends=True)[0]
    folder.events.write_bytes(first)
    folder.attempt(1).identity.unlink()
    folder.attempt(1).exit.unlink()
    sim.start()
    assert sim.ended(run).attempt == 1


@pytest.fixture
def unbegun(lab: Lab) -> str:
    """A run whose second attempt a supervisor wrote down and ordered, and died before it started a keeper for it."""
    return without_keeper(lab)


@pytest.fixture
def simulated_unbegun(sim: SimulatedLab) -> str:
    """The same on a simulated machine."""
    return without_keeper(sim)


def without_keeper(lab: RunsRoot) -> str:
    """Have its supervisor die before it starts the keeper of a run's second attempt."""
    (run,) = lab.launch(spec=stub_spec(64 * 2))
    lab.ended(run)
    lab.kill_supervisor()
    folder = lab.dir(run)
    order = read_launch(folder.attempt(1).launch)
    assert order is not None
    folder.attempt(2).path.mkdir()
    argv = tuple("2" if word == "1" else word for word in order.argv)
    environ = order.env | {"MISSION_TUI_ATTEMPT": "2"}
    lab.seals.write_order(folder, structs.replace(order, attempt=2, argv=argv, env=environ))
    journal = AppendLog(folder.events)
    journal.append(lambda seq: AttemptStarting(seq, time.time(), 2))
    journal.close()
    return run


def test_an_attempt_whose_keeper_was_never_started_is_started_by_the_next_supervisor(
    sim: SimulatedLab, simulated_unbegun: str
) -> None:
    """What was asked for is not lost with the supervisor that was asked, and the attempt begins once."""
    sim.start()
    ended = sim.wait(simulated_unbegun, lambda view: view.state == "ended" and view.attempt == 2, 20)
    assert ended.outcome == "finished"
    events = read_all(sim.dir(simulated_unbegun).events, FleetEvent)[0]
    assert [event.attempt for event in events if isinstance(event, AttemptStarting)] == [1, 2]


def test_a_stop_before_the_keeper_was_started_is_obeyed(sim: SimulatedLab, simulated_unbegun: str) -> None:
    """Nothing starts against a stop on record, and the run is not shown as lost."""
    journal = AppendLog(sim.dir(simulated_unbegun).events)
    journal.append(lambda seq: Asked(seq, time.time(), "stop", 2))
    journal.close()
    sim.start()
    ended = sim.wait(simulated_unbegun, lambda view: view.state == "ended", 20)
    assert (ended.outcome, ended.cause) == ("stopped", "ended by you before it had begun")
    assert not sim.dir(simulated_unbegun).attempt(2).identity.exists()


@pytest.mark.slow
def test_a_keeper_on_its_way_is_waited_for(lab: Lab, unbegun: str) -> None:
    """A process that names the attempt as a keeper does may still take the run: nobody is started beside it."""
    words = [str(lab.dir(unbegun).path), "2"]
    with subprocess.Popen([sys.executable, "-S", "-c", "input()", *words], stdin=subprocess.PIPE) as slow:
        lab.start()
        time_out = time.monotonic() + PATIENCE_S + 1.0
        until(lambda: time.monotonic() > time_out, PATIENCE_S + 5)
        assert lab.view(unbegun).state == "starting"
        assert not lab.dir(unbegun).attempt(2).identity.exists()
        slow.kill()
    assert lab.wait(unbegun, lambda view: view.state == "ended", 20).outcome == "finished"
