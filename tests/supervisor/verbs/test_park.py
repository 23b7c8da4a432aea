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
from mission_tui.records.files.append import AppendLog
from mission_tui.records.files.tail import read_all
from tests.supervisor.conftest import Lab, living
from tests.waiting import until


def resume(lab: Lab, run: str) -> None:
    """Ask for a resume that must be accepted."""
    assert isinstance(lab.ask(lambda id_: Resume(id=id_, run=run)), Accepted)


def saved(lab: Lab, workers: int = 0, update_s: float = 0.05) -> str:
    """A run that trains and has a checkpoint."""
    (run,) = lab.launch(STUB_WORKERS=str(workers), STUB_UPDATE_S=str(update_s))
    lab.running(run, 2)
    lab.act("checkpoint", run)
    lab.wait(run, lambda view: view.last_checkpoint)
    lab.running(run, 6)
    return run


def parked(lab: Lab, run: str) -> None:
    lab.act("park", run)
    lab.wait(run, lambda view: view.state == "parked")


def paused(lab: Lab, run: str) -> None:
    lab.act("pause", run)
    lab.wait(run, lambda view: view.state == "paused")


def frozen(lab: Lab, run: str) -> None:
    lab.act("freeze", run)
    assert lab.view(run).state == "frozen"


def stopped(lab: Lab, run: str) -> None:
    lab.act("stop", run)
    assert lab.ended(run).outcome == "stopped"


def killed(lab: Lab, run: str) -> None:
    lab.act("kill", run)
    assert lab.ended(run).outcome == "killed"


def failed(lab: Lab, run: str) -> None:
    trainer = lab.view(run).pids.trainer
    assert trainer is not None
    os.kill(trainer, signal.SIGSEGV)
    assert lab.ended(run).kind == "crash"


def lost(lab: Lab, run: str) -> None:
    """Everything of it is gone at once, as after a power failure."""
    pids = lab.view(run).pids
    lab.kill_supervisor()
    for pid in (pids.keeper, pids.trainer):
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    lab.start()
    assert lab.ended(run).outcome == "lost"


@pytest.mark.slow
@pytest.mark.parametrize("road", [paused, frozen, parked, stopped, killed, failed, lost])
def test_resume_leads_back_from(lab: Lab, road: Callable[[Lab, str], None]) -> None:
    """From each of the seven it trains on, and its updates are one row each without a gap."""
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


@pytest.mark.slow
def test_parked_survives_the_supervisor(lab: Lab) -> None:
    """The state is in the journal: the next supervisor shows it and can resume it."""
    run = saved(lab)
    parked(lab, run)
    lab.kill_supervisor()
    lab.start()
    assert lab.view(run).state == "parked"
    resume(lab, run)
    lab.running(run)


@pytest.mark.slow
def test_a_park_asked_before_the_supervisor_died_is_carried_on(lab: Lab) -> None:
    """A trainer that heard nothing yet hears it from the next supervisor."""
    (run,) = lab.launch(STUB_UPDATE_S="3")
    lab.wait(run, lambda view: view.connected)
    lab.act("park", run)
    lab.kill_supervisor()
    lab.start()
    lab.wait(run, lambda view: view.state == "parked")


@pytest.mark.slow
def test_what_ends_otherwise_is_not_parked(lab: Lab) -> None:
    """A stop or kill after the park is the last word; a trainer that obeys nobody is killed and says so."""
    run, other = lab.launch(2, STUB_DEAF="1")
    for deaf in (run, other):
        lab.running(deaf)
    lab.act("park", run, other)
    assert lab.view(run).state == "stopping"
    lab.act("kill", run, other)
    assert (lab.ended(run).outcome, lab.ended(other).outcome) == ("killed", "killed")
    run = saved(lab, update_s=0.5)
    lab.act("park", run)
    lab.act("stop", run)
    view = lab.ended(run)
    assert (view.state, view.outcome) == ("ended", "stopped")


@pytest.mark.slow
def test_a_kill_that_was_asked_is_carried_out_by_the_next_supervisor(lab: Lab) -> None:
    """The request was journaled and its signal never sent: whoever reads the journal sends it."""
    (run,) = lab.launch()
    lab.running(run, 2)
    lab.kill_supervisor()
    log = AppendLog(lab.dir(run).events)
    log.append(lambda seq: Asked(seq, time.time(), "kill", 1))
    log.close()
    lab.start()
    assert lab.ended(run).outcome == "killed"


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
