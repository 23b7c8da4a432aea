"""Marking findings and rules over a real socket: shown, kept, and refused with the nearest valid word."""

from __future__ import annotations

import pytest

from mission_tui.errors import UsageError
from mission_tui.fleet.events.journal import FindingMarked, FleetEvent
from mission_tui.fleet.events.journal import Mark as MarkWord
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Mark
from mission_tui.records.jsonl import read_all
from tests.supervisor.conftest import RunsRoot
from tests.supervisor.simulated_lab import SimulatedLab


def mark(lab: RunsRoot, run: str, word: MarkWord, *, finding: str = "", rule: str = "") -> Accepted:
    """Mark a finding or a rule."""
    reply = lab.ask(lambda id_: Mark(id=id_, run=run, mark=word, finding=finding, rule=rule))
    assert isinstance(reply, Accepted)
    return reply


def sick(lab: RunsRoot) -> tuple[str, str]:
    """A run with an open finding, and the finding."""
    (run,) = lab.launch(STUB_KL="0.5", STUB_UPDATE_S="0.01")
    view = lab.wait(run, lambda view: view.findings)
    return run, view.findings[0].id


def marks(lab: RunsRoot, run: str) -> list[FindingMarked]:
    """The marks in the run's journal."""
    return [event for event in read_all(lab.dir(run).events, FleetEvent)[0] if isinstance(event, FindingMarked)]


def test_an_acknowledged_finding_stays_so_for_the_next_supervisor(sim: SimulatedLab) -> None:
    """It shows in the view at once, and after a crash; asking twice journals once."""
    run, finding = sick(sim)
    assert mark(sim, run, "acknowledged", finding=finding).notes == ()
    assert "already" in mark(sim, run, "acknowledged", finding=finding).notes[0]
    assert len(marks(sim, run)) == 1
    assert sim.view(run).findings[0].state == "acknowledged"
    sim.kill_supervisor()
    sim.start()
    assert sim.view(run).findings[0].state == "acknowledged"
    mark(sim, run, "open", finding=finding)
    assert sim.view(run).findings[0].state == "open"


@pytest.mark.parametrize("named", ["1", "kl-persistent"])
def test_a_finding_is_named_as_the_list_shows_it(sim: SimulatedLab, named: str) -> None:
    """By its number or its rule, because the list of `findings` shows no ids; the journal has the id."""
    run, finding = sick(sim)
    mark(sim, run, "acknowledged", finding=named)
    assert [event.finding for event in marks(sim, run)] == [finding]
    with pytest.raises(UsageError, match="has no finding 99: it has 1 to"):
        mark(sim, run, "acknowledged", finding="99")


def test_a_rule_is_silenced_for_the_run(sim: SimulatedLab) -> None:
    """Its findings are silenced and the view names it; opening the rule takes that back."""
    run, _ = sick(sim)
    mark(sim, run, "silenced", rule="kl-persistent")
    view = sim.view(run)
    assert (view.findings[0].state, view.silenced) == ("silenced", ("kl-persistent",))
    mark(sim, run, "open", rule="kl-persistent")
    assert (sim.view(run).findings[0].state, sim.view(run).silenced) == ("open", ())


def test_an_ended_run_can_be_marked(sim: SimulatedLab) -> None:
    """Its journal is opened for the one line, also by a supervisor that never saw it live."""
    run, finding = sick(sim)
    sim.act("stop", run)
    sim.ended(run)
    mark(sim, run, "acknowledged", finding=finding)
    sim.kill_supervisor()
    sim.start()
    mark(sim, run, "silenced", rule="stall")
    events, damage = read_all(sim.dir(run).events, FleetEvent)
    assert not damage
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert (sim.view(run).findings[0].state, sim.view(run).silenced) == ("acknowledged", ("stall",))


def test_what_cannot_be_marked_is_refused_with_what_can(sim: SimulatedLab) -> None:
    """Unknown findings and rules name the nearest; findings are acknowledged and rules silenced, one at a time."""
    run, finding = sick(sim)
    with pytest.raises(UsageError, match=f"did you mean '{finding}'"):
        mark(sim, run, "acknowledged", finding=finding[:-1] + "x")
    with pytest.raises(UsageError, match="did you mean 'kl-persistent'"):
        mark(sim, run, "silenced", rule="kl-persistant")
    with pytest.raises(UsageError, match="name its rule kl-persistent to silence it"):
        mark(sim, run, "silenced", finding=finding)
    with pytest.raises(UsageError, match="findings are acknowledged"):
        mark(sim, run, "acknowledged", rule="kl-persistent")
    for both_or_none in ({}, {"finding": finding, "rule": "nan"}):
        with pytest.raises(UsageError, match="exactly one"):
            mark(sim, run, "open", **both_or_none)
    assert marks(sim, run) == []
