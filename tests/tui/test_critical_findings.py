"""New critical findings are told once: by a toast, the bell and the terminal's own notification."""

from __future__ import annotations

import os

from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.trials import TrialBranch
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.tui.state.news import CriticalFindings, desktop_note, sentences
from tests.tui.fleets import ENTROPY_FINDING, KL_FINDING, NAN_FINDING, TRIAL, a_fleet, a_run
from tests.tui.played import terminal
from tests.tui.stage import staged


def fleet(*findings: Finding, revision: int = 1) -> FleetSnapshot:
    return a_fleet((a_run("sick-11c0", findings=findings),), revision=revision)


def told(alarm: CriticalFindings, *findings: Finding) -> list[str]:
    return [finding.id for _, finding in alarm.update(fleet(*findings))]


def test_what_is_there_at_the_beginning_is_no_news() -> None:
    """The person sees it; the bell is for what happens from then on, once."""
    alarm = CriticalFindings()
    other = structs.replace(NAN_FINDING, id="nan-1-1500")
    assert told(alarm, NAN_FINDING) == []
    assert told(alarm, NAN_FINDING, other) == [other.id]
    assert told(alarm, NAN_FINDING, other) == []
    assert told(alarm) == []
    assert told(alarm, other) == []


def test_only_critical_findings_ring() -> None:
    """A warning is news when it has become critical, even if it was acknowledged before."""
    alarm = CriticalFindings()
    assert told(alarm) == []
    assert told(alarm, KL_FINDING, ENTROPY_FINDING) == []
    assert told(alarm, structs.replace(KL_FINDING, state="acknowledged")) == []
    assert told(alarm, structs.replace(KL_FINDING, severity="critical")) == [KL_FINDING.id]


def test_what_somebody_has_dealt_with_does_not_ring() -> None:
    """Neither when it comes acknowledged or silenced, nor when that is taken back."""
    alarm = CriticalFindings()
    assert told(alarm) == []
    assert told(alarm, structs.replace(NAN_FINDING, state="silenced")) == []
    assert told(alarm, NAN_FINDING) == []


def test_the_branches_of_a_trial_do_not_ring() -> None:
    """A control is as sick as its run; once one has taken the run's place it rings like any other."""
    run = a_run("sick-11c0", trials=(structs.replace(TRIAL, closed=""),))
    branch = a_run("sick-11c0-try1-control-1", branch_of=TrialBranch(run.id, TRIAL.plan.number, "control", 1))
    sick = structs.replace(branch, findings=(NAN_FINDING,))
    alarm = CriticalFindings()
    alarm.update(a_fleet((run, branch)))
    assert alarm.update(a_fleet((run, sick))) == ()
    taken = structs.replace(run, trials=(structs.replace(TRIAL, closed="taken"),))
    other = structs.replace(NAN_FINDING, id="nan-1-1500")
    assert alarm.update(a_fleet((taken, structs.replace(sick, findings=(other,))))) != ()


def test_many_at_once_are_a_few_sentences() -> None:
    """Three by name, the others by number."""
    news = tuple((a_run(f"run-{n}"), NAN_FINDING) for n in range(5))
    said = sentences(news)
    assert len(said) == 4
    assert said[0] == "run-0: train/value_loss is nan at update 1,398"
    assert said[-1] == "and 2 more critical findings"


def test_a_run_named_like_a_control_sequence_cannot_leave_the_note() -> None:
    """The note begins with our name and holds no control character but its own frame."""
    note = desktop_note(((a_run("4;1;50\x07\x1b]0;title"), NAN_FINDING),))
    assert note.startswith("\x1b]9;mission-tui: 4;1;50")
    assert note.endswith("\x07")
    assert note[1:-1].isprintable()


async def test_a_new_critical_finding_is_a_toast_that_names_the_run() -> None:
    """And rings the bell, unless `b` has asked for quiet: then the toast comes alone."""
    rung: list[str] = []
    async with staged(fleet()) as stage:
        stage.app.bell = lambda: rung.append("bell")  # type: ignore[method-assign]
        await stage.arrive(fleet(NAN_FINDING, revision=2))
        assert "sick-11c0: train/value_loss is nan at update 1,398" in stage.toasts()
        assert rung == ["bell"]
        await stage.press("b")
        other = structs.replace(NAN_FINDING, id="nan-2-9", sentence="train/loss is nan at update 9")
        await stage.arrive(fleet(other, revision=3))
        assert "sick-11c0: train/loss is nan at update 9" in stage.toasts()
        assert rung == ["bell"]


def test_a_real_terminal_gets_the_bell_and_the_note() -> None:
    """Both are written between pictures, whole, and once."""
    with terminal("falls-ill") as played:
        played.read_until(b"\x1b]9;mission-tui: sick-11c0: train/value_loss is nan at update 1,398\x07")
        os.write(played.master, b"q")
        played.drain()
        assert played.ended_within(5.0) == 0
    assert played.output.count(b"\x1b]9;") == 1
    assert b"\x07" in played.output.replace(b"1,398\x07", b"")
