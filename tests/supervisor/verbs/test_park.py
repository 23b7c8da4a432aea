"""Park, and the roads by which `resume` leads back from every way in which a run can rest or have ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from mission_tui.errors import UsageError
from mission_tui.fleet.events.journal import Asked
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Resume
from mission_tui.records.jsonl import AppendLog, read_all
from tests.supervisor.conftest import Lab, RunsRoot, living
from tests.supervisor.simulated_lab import SimulatedLab
from tests.waiting import until


def resume(lab: RunsRoot, run: str) -> None:
    """Ask for a resume that must be accepted."""
    assert isinstance(lab.ask(lambda id_: Resume(id=id_, run=run)), Accepted)


def saved(lab: RunsRoot, workers: int = 0, update_s: float = 0.05) -> str:
    """A run that trains and has a checkpoint."""
    (run,) = lab.launch(STUB_WORKERS=str(workers), STUB_UPDATE_S=str(update_s))
    lab.running(run, 2)
    lab.act("checkpoint", run)
    lab.wait(run, lambda view: view.last_checkpoint)
    lab.running(run, 6)
    return run


def parked(lab: RunsRoot, run: str) -> None:
    lab.act("park", run)
    lab.wait(run, lambda view: view.state == "parked")


def paused(lab: RunsRoot, run: str) -> None:
    lab.act("pause", run)
    lab.wait(run, lambda view: view.state == "paused")


def frozen(lab: RunsRoot, run: str) -> None:
    lab.act("freeze", run)
    assert lab.view(run).state == "frozen"


def stopped(lab: RunsRoot, run: str) -> None:
    lab.act("stop", run)
    assert lab.ended(run).outcome == "stopped"


def killed(lab: RunsRoot, run: str) -> None:
    lab.act("kill", run)
    assert lab.ended(run).outcome == "killed"


def failed(lab: RunsRoot, run: str) -> None:
    trainer = lab.view(run).pids.trainer
    assert trainer is not None
    lab.kill(trainer, signal.SIGSEGV)
    assert lab.ended(run).kind == "crash"


def lost(lab: RunsRoot, run: str) -> None:
    """Everything of it is gone at once, as after a power failure."""
    pids = lab.view(run).pids
    lab.kill_supervisor()
    for pid in (pids.keeper, pids.trainer):
        assert pid is not None
        lab.kill(pid, signal.SIGKILL)
    lab.start()
    assert lab.ended(run).outcome == "lost"


@pytest.mark.parametrize("road", [paused, parked, stopped, killed, failed, lost])
def test_resume_leads_back_from(sim: SimulatedLab, road: Callable[[RunsRoot, str], None]) -> None:
    """From each of the six it trains on, and its updates are one row each without a gap."""
    trains_on_after(sim, road)


@pytest.mark.slow
@pytest.mark.parametrize("road", [frozen, lost])
def test_resume_leads_real_processes_back_from(lab: Lab, road: Callable[[RunsRoot, str], None]) -> None:
    """The same of what only the kernel knows: processes that stand still, and processes that are gone."""
    trains_on_after(lab, road)


def trains_on_after(lab: RunsRoot, road: Callable[[RunsRoot, str], None]) -> None:
    run = saved(lab)
    road(lab, run)
    before = lab.view(run)
    resume(lab, run)
    view = lab.running(run, (before.update or 0) + 3)
    assert view.attempt == (1 if road in (paused, frozen) else 2)
    records, damage = read_all(lab.dir(run).metrics, MetricRecord)
    rows = {record.update: record for record in records if isinstance(record, UpdateDone)}
    assert damage == []
    assert list(rows) == list(range(1, len(rows) + 1))


def test_a_parked_run_holds_nothing_and_says_so(lab: Lab) -> None:
    """Its processes are gone, its checkpoint is named, and it is among the runs that wait, not among the live."""
    run = saved(lab, workers=2)
    family = lab.family(run)
    parked(lab, run)
    until(lambda: not living(family))
    view = lab.view(run)
    assert (view.outcome, view.held, view.pids.trainer) == ("stopped", None, None)
    assert "its memory is free" in (view.cause or "")
    assert view.last_checkpoint is not None
    with pytest.raises(UsageError, match="it is parked"):
        lab.act("stop", run)


@pytest.mark.slow
def test_a_frozen_or_paused_run_can_be_parked(lab: Lab) -> None:
    """It is let go first, so that it can save."""
    for rest in (frozen, paused):
        run = saved(lab)
        rest(lab, run)
        parked(lab, run)


def test_parked_survives_the_supervisor(sim: SimulatedLab) -> None:
    """The state is in the journal: the next supervisor shows it and can resume it."""
    run = saved(sim)
    parked(sim, run)
    sim.kill_supervisor()
    sim.start()
    assert sim.view(run).state == "parked"
    resume(sim, run)
    sim.running(run)


def test_a_park_asked_before_the_supervisor_died_is_carried_on(sim: SimulatedLab) -> None:
    """A trainer that heard nothing yet hears it from the next supervisor."""
    (run,) = sim.launch(STUB_UPDATE_S="3")
    sim.wait(run, lambda view: view.connected)
    sim.act("park", run)
    sim.kill_supervisor()
    sim.start()
    sim.wait(run, lambda view: view.state == "parked")


def test_what_ends_otherwise_is_not_parked(sim: SimulatedLab) -> None:
    """A stop or kill after the park is the last word; a trainer that obeys nobody is killed and says so."""
    run, other = sim.launch(2, STUB_DEAF="1")
    for deaf in (run, other):
        sim.running(deaf)
    sim.act("park", run, other)
    assert sim.view(run).state == "stopping"
    sim.act("kill", run, other)
    assert (sim.ended(run).outcome, sim.ended(other).outcome) == ("killed", "killed")
    run = saved(sim, update_s=0.5)
    sim.act("park", run)
    sim.act("stop", run)
    view = sim.ended(run)
    assert (view.state, view.outcome) == ("ended", "stopped")


def test_a_kill_that_was_asked_is_carried_out_by_the_next_supervisor(sim: SimulatedLab) -> None:
    """The request was journaled and its signal never sent: whoever reads the journal sends it."""
    (run,) = sim.launch()
    sim.running(run, 2)
    sim.kill_supervisor()
    log = AppendLog(sim.dir(run).events)
    log.append(lambda seq: Asked(seq, time.time(), "kill", 1))
    log.close()
    sim.start()
    assert sim.ended(run).outcome == "killed"


def test_a_keeper_that_dies_while_it_ends_a_run_is_replaced(lab: Lab) -> None:
    """The kill is journaled, its keeper is gone: the supervisor ends the trainer's group itself."""
    (run,) = lab.launch(STUB_DEAF="1", STUB_WORKERS="2")
    pids = lab.running(run, 2).pids
    family = lab.family(run)
    assert pids.keeper is not None
    os.kill(pids.keeper, signal.SIGSTOP)
    lab.act("stop", run)
    os.kill(pids.keeper, signal.SIGKILL)
    lab.wait(run, lambda view: "keeperless" in view.flags)
    lab.act("kill", run)
    assert lab.ended(run).outcome == "killed"
    until(lambda: not living(family))
