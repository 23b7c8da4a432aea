"""Clone, rename, note and label: a run like another one, and what people call and write of runs."""

from __future__ import annotations

from typing import Any

import pytest

from mission_tui.errors import PresetError, UsageError
from mission_tui.fleet.events.journal import FleetEvent, RunLabelled, RunNoted, RunRenamed
from mission_tui.ipc.replies import Accepted, DetailsReply
from mission_tui.ipc.requests import Clone, GetDetails, Label, Note, Rename, Set
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import read_spec
from mission_tui.supervisor.runs.run_on_disk import read_fleet
from tests.supervisor.conftest import RunsRoot
from tests.supervisor.simulated_lab import SimulatedLab


def asked(lab: RunsRoot, kind: type[Any], run: str, **more: Any) -> Accepted:
    """The answer to a request of this kind about `run`."""
    reply = lab.ask(lambda id_: kind(id=id_, run=run, **more))
    assert isinstance(reply, Accepted)
    return reply


def journal(lab: RunsRoot, run: str, *kinds: type) -> list[Any]:
    """The run's events of these kinds."""
    return [event for event in read_all(lab.dir(run).events, FleetEvent)[0] if isinstance(event, kinds)]


def test_a_clone_trains_as_the_run_does_now_but_for_what_is_changed(sim: SimulatedLab) -> None:
    """Same settings and seed, what was set meanwhile included; from scratch; the source is left alone."""
    (run,) = sim.launch()
    sim.running(run, 2)
    asked(sim, Set, run, assignments=("ppo.ent_coef=0.01",))
    reply = asked(sim, Clone, run, assignments=("ppo.learning_rate=1e-4",), name="slower")
    (made,) = reply.runs
    name = sim.view(run).name
    assert reply.notes[0] == f"cloned from {name}; ppo.learning_rate 0.0003 → 0.0001"
    view = sim.running(made)
    assert (view.name, view.attempt, view.origins[0].kind) == ("slower", 1, "cloned")
    was, now = read_spec(sim.dir(run).spec), read_spec(sim.dir(made).spec)
    assert (now.ppo.learning_rate, now.ppo.ent_coef, now.run.seed) == (1e-4, 0.01, was.run.seed)
    assert not sim.dir(made).origin.exists()
    assert sim.view(run).state == "running"


def test_a_clone_is_a_run_of_its_own_after_a_restart(sim: SimulatedLab) -> None:
    """Also of an ended run, by a supervisor that never saw that one live; where it comes from is on disk, and is no run
    of its own name once it has taken that.
    """
    (run,) = sim.launch(name="first")
    sim.running(run)
    sim.act("kill", run)
    sim.ended(run)
    sim.kill_supervisor()
    sim.start()
    (made,) = asked(sim, Clone, run).runs
    sim.running(made)
    sim.kill_supervisor()
    sim.start()
    assert sim.view(made).origins[0].sentence == "cloned from first; nothing changed"
    asked(sim, Rename, run, name="before")
    asked(sim, Rename, made, name="first")
    assert sim.view(made).origins[0].sentence == f"cloned from {run}; nothing changed"


def test_a_clone_that_cannot_train_makes_nothing(sim: SimulatedLab) -> None:
    """A contradiction, a key that is none, and a name that is taken are refused."""
    (run,) = sim.launch(name="first")
    for words, error in (("ppo.batch_size=1000",), PresetError), (("ppo.gama=0.9",), PresetError):
        with pytest.raises(error):
            asked(sim, Clone, run, assignments=words)
    with pytest.raises(UsageError, match="taken"):
        asked(sim, Clone, run, name="first")
    assert len(sim.snapshot().runs) == 1


def test_a_run_is_found_by_its_new_name_also_when_it_has_ended(sim: SimulatedLab) -> None:
    """Renamed while it lives, then ended; the next supervisor knows it by that name and not by the old one."""
    (run,) = sim.launch(name="first")
    sim.running(run)
    asked(sim, Rename, "first", name="second")
    assert sim.view(run).name == "second"
    with pytest.raises(UsageError, match="taken"):
        sim.launch(name="second")
    sim.act("stop", "second")
    sim.ended(run)
    sim.kill_supervisor()
    assert read_fleet(sim.root)[1][0].whole
    sim.start()
    details = sim.ask(lambda id_: GetDetails(id=id_, run="second"))
    assert isinstance(details, DetailsReply)
    assert details.view.id == run
    assert "already" in asked(sim, Rename, "second", name="second").notes[0]
    assert [event.name for event in journal(sim, run, RunRenamed)] == ["second"]
    with pytest.raises(UsageError, match="cannot be used"):
        asked(sim, Rename, "second", name="no good")


def test_a_new_name_that_an_ended_run_has_is_told(sim: SimulatedLab) -> None:
    """Afterwards the name means both, and is refused wherever one run is asked for."""
    (old,) = sim.launch(name="first")
    sim.running(old)
    sim.act("stop", old)
    sim.ended(old)
    (run,) = sim.launch(name="second")
    assert old in asked(sim, Rename, run, name="first").notes[1]
    assert len(asked(sim, Rename, run, name="third").notes) == 1


def test_notes_and_labels_stay_with_the_run(sim: SimulatedLab) -> None:
    """The newest note and all labels show in the view, for the next supervisor too; each is journaled once."""
    (run,) = sim.launch()
    sim.running(run)
    asked(sim, Note, run, text="the first\nnote")
    asked(sim, Note, run, text="\x1b[31mthe second")
    asked(sim, Label, run, add=("paper", "draft"))
    asked(sim, Label, run, add=("paper",), remove=("draft",))
    assert "already" in asked(sim, Label, run, add=("paper",)).notes[0]
    assert (sim.view(run).note, sim.view(run).labels) == ("the second", ("paper",))
    sim.act("stop", run)
    sim.ended(run)
    asked(sim, Note, run, text="ended well")
    sim.kill_supervisor()
    sim.start()
    assert (sim.view(run).note, sim.view(run).labels) == ("ended well", ("paper",))
    assert len(journal(sim, run, RunNoted)) == 3
    assert len(journal(sim, run, RunLabelled)) == 2


@pytest.mark.parametrize(
    ("add", "remove", "said"),
    [
        ((), (), "at least one"),
        (("no good",), (), "cannot be used"),
        (("a" * 25,), (), "cannot be used"),
        ((), ("papr",), "did you mean 'paper'"),
        (("x",), ("x",), "both"),
        (tuple(f"l{n}" for n in range(16)), (), "more than 16"),
    ],
)
def test_labels_that_cannot_be_are_refused(
    sim: SimulatedLab, add: tuple[str, ...], remove: tuple[str, ...], said: str
) -> None:
    """And nothing is journaled for them."""
    (run,) = sim.launch()
    asked(sim, Label, run, add=("paper",))
    with pytest.raises(UsageError, match=said):
        asked(sim, Label, run, add=add, remove=remove)
    assert sim.view(run).labels == ("paper",)


@pytest.mark.parametrize("text", ["", " \n ", "\x1b[31m", "x" * 401])
def test_a_note_says_something_in_one_line(sim: SimulatedLab, text: str) -> None:
    """Nothing at all, and more than a line can hold, are refused."""
    (run,) = sim.launch()
    with pytest.raises(UsageError, match="note"):
        asked(sim, Note, run, text=text)
    assert journal(sim, run, RunNoted) == []
