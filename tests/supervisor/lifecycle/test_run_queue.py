"""`keep.limits.disk_free`: a new run is queued, with the reason, until its disk has the room, and begins by itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.errors import UsageError
from mission_tui.fleet.events.journal import Asked
from mission_tui.fleet.specs.spec import KeepSpec, LaunchItem, LimitsKeep, Spec
from mission_tui.ipc.replies import Accepted, Launched, VerdictReply
from mission_tui.ipc.requests import Launch, Resume, Set, Undo
from mission_tui.records.jsonl import AppendLog
from tests.full_disk import fill, small_disk
from tests.supervisor.conftest import REPOSITORY, Lab, opened_lab, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab

MIB = 1 << 20


def wanting(disk_free: int, total_timesteps: int = 64) -> Spec:
    """The stub's spec that begins only with so many bytes free."""
    return structs.replace(stub_spec(total_timesteps), keep=KeepSpec(limits=LimitsKeep(disk_free=disk_free)))


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[Lab]:
    """A runs root on a disk of 64 MiB with a supervisor."""
    with small_disk(tmp_path / "disk", 64 * MIB) as disk, opened_lab(disk / "runs") as lab:
        lab.start()
        yield lab


@pytest.mark.slow
def test_a_run_waits_until_there_is_room_and_then_trains(crowded: Lab) -> None:
    """The reason names both numbers and the key; what is asked at launch is warned of at once."""
    ballast = fill(crowded.root.parent, leave_bytes=40 * MIB)
    item = LaunchItem(spec=wanting(50 * 10**6), name="waiting")
    environ = {"PATH": crowded.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    reply = crowded.ask(
        lambda id_: Launch(id=id_, items=(item,), cwd=str(crowded.root), python=sys.executable, environ=environ)
    )
    assert isinstance(reply, Launched)
    (warning,) = (word for word in reply.warnings if "disk_free" in word)
    assert warning.startswith("waiting waits for the disk: ")
    run = reply.runs[0].id
    view = crowded.view(run)
    assert (view.state, view.attempt) == ("queued", 0)
    assert "keep.limits.disk_free asks for 50 MB" in (view.cause or "")
    ballast.unlink()
    assert crowded.ended(run).attempt == 1


@pytest.mark.slow
def test_the_next_supervisor_holds_it_too(crowded: Lab) -> None:
    """Nothing was written about the waiting, and nothing is lost of it."""
    ballast = fill(crowded.root.parent, leave_bytes=40 * MIB)
    (run,) = crowded.launch(spec=wanting(50 * 10**6))
    crowded.kill_supervisor()
    crowded.start()
    assert "waits for the disk" in (crowded.view(run).cause or "")
    ballast.unlink()
    assert crowded.ended(run).outcome == "finished"


@pytest.mark.parametrize(("verb", "outcome"), [("stop", "stopped"), ("park", "stopped"), ("kill", "killed")])
def test_ending_takes_a_run_from_the_queue(sim: SimulatedLab, verb: str, outcome: str) -> None:
    """It never began, says so in the word that was asked for, and no process of it was ever there."""
    (run,) = sim.launch(spec=wanting(10**18))
    sim.act(verb, run)
    view = sim.ended(run)
    assert (view.outcome, view.attempt) == (outcome, 0)
    assert "never began" in (view.cause or "")
    assert not sim.dir(run).attempt(1).identity.exists()


def test_one_that_was_stopped_unseen_does_not_begin_later(sim: SimulatedLab) -> None:
    """The supervisor died between the word and the deed: the next one ends the run, though there is room now."""
    (run,) = sim.launch(spec=wanting(10**18))
    sim.kill_supervisor()
    folder = sim.dir(run)
    spec = folder.spec.read_text(encoding="utf-8")
    folder.spec.write_text(spec.replace(str(10**18), "0"), encoding="utf-8")
    events = AppendLog(folder.events)
    events.append(lambda seq: Asked(seq, 1.0, "stop", 0))
    events.close()
    sim.start()
    assert sim.ended(run).outcome == "stopped"
    assert not folder.attempt(1).identity.exists()


@pytest.mark.parametrize("verb", ["stop", "kill", "park"])
def test_a_run_that_was_ended_in_the_queue_is_resumed_there(sim: SimulatedLab, verb: str) -> None:
    """As often as one likes, also by the next supervisor: it waits where it was, and begins as its first attempt."""
    (run,) = sim.launch(spec=wanting(10**18))
    for at in range(2):
        sim.act(verb, run)
        assert sim.ended(run).attempt == 0
        if at:
            sim.kill_supervisor()
            sim.start()
        shown = sim.ask(lambda id_: Resume(id=id_, run=run, check_only=True))
        assert isinstance(shown, VerdictReply)
        assert (shown.verdict.grade, sim.view(run).state) == ("safe", "ended")
        with pytest.raises(UsageError, match=r"`set .* changes it there"):
            sim.ask(lambda id_: Resume(id=id_, run=run, assignments=("ppo.n_epochs=5",)))
        reply = sim.ask(lambda id_: Resume(id=id_, run=run))
        assert isinstance(reply, Accepted)
        (note,) = reply.notes
        assert " never began, and waits in the queue again: it waits for the disk" in note
        sim.sleep(6.0)
        view = sim.view(run)
        assert (view.state, view.outcome, view.attempt) == ("queued", None, 0)
        assert "waits for the disk" in (view.cause or "")
    sim.kill_supervisor()
    sim.start()
    assert sim.view(run).state == "queued"
    sim.ask(lambda id_: Set(id=id_, run=run, assignments=("keep.limits.disk_free=0",)))
    view = sim.ended(run)
    assert (view.outcome, view.attempt) == ("finished", 1)
    assert not sim.dir(run).attempt(2).path.exists()


def test_undo_of_a_queued_run_leaves_nothing(sim: SimulatedLab) -> None:
    """As of any other that was just launched."""
    (run,) = sim.launch(spec=wanting(10**18))
    sim.ask(lambda id_: Undo(id=id_, runs=(run,)))
    sim.until(lambda: not sim.dir(run).path.exists(), 10)
    assert sim.snapshot().runs == ()
