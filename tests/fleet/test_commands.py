"""The catalogue of commands, and which of them mean something for a run as it stands."""

from __future__ import annotations

from typing import get_args

from msgspec import structs

from mission_tui.fleet.commands import CATALOGUE, is_applicable, is_done_already, never, objection, refusal
from mission_tui.fleet.events.journal import ActVerb
from mission_tui.fleet.events.outcome import RunState
from tests.tui.fleets import KL_FINDING, LIVE, ended


def test_every_state_has_its_own_verbs() -> None:
    """What ends is offered to what goes on, and what goes on again to what rests."""
    verbs = ("pause", "freeze", "park", "stop", "kill", "resume", "remove")
    meant = {
        state: {
            verb for verb in verbs if is_applicable(verb, structs.replace(LIVE[0], state=state, last_checkpoint="7"))
        }
        for state in get_args(RunState)
    }
    assert meant["running"] == {"pause", "freeze", "park", "stop", "kill"}
    assert meant["queued"] == {"park", "stop", "kill"}
    assert meant["stopping"] == {"kill"}
    assert meant["frozen"] == {"park", "stop", "kill", "resume"}
    pausing = structs.replace(LIVE[0], pausing=True)
    assert (is_applicable("pause", pausing), is_applicable("resume", pausing)) == (False, True)
    assert meant["parked"] == meant["ended"] == {"resume", "remove"}


def test_what_needs_a_checkpoint_is_not_offered_without_one() -> None:
    """A run that never saved cannot go on with other settings, nor be played; `resume` has it begin anew."""
    bare = ended("bare-0000", 5, "failed", last_checkpoint=None)
    assert not any(is_applicable(verb, bare) for verb in ("resume with", "evaluate"))
    assert is_applicable("resume", bare)
    assert is_applicable("resume", structs.replace(bare, can=()))
    unbegun = structs.replace(bare, attempt=0)
    assert (is_applicable("resume", unbegun), is_applicable("resume with", unbegun)) == (True, False)


def test_what_is_for_findings_needs_one_that_it_can_do_something_about() -> None:
    """Advice is applied where there is some, and only while the finding is open."""
    assert is_applicable("apply", LIVE[1], KL_FINDING)
    assert not is_applicable("apply", LIVE[1])
    assert not is_applicable("set advice", LIVE[1], structs.replace(KL_FINDING, advice_set=()))
    assert not is_applicable("silence", LIVE[1], structs.replace(KL_FINDING, state="cleared"))


def test_what_screen_and_supervisor_say_is_the_same() -> None:
    """A command that is not offered in a state is refused there with a reason, and the other way round."""
    for row in CATALOGUE:
        if not row.order or row.name == "pause":
            continue
        for state in get_args(RunState):
            view = structs.replace(LIVE[0], state=state, last_checkpoint="7")
            refused = objection(row.name, view) is not None
            assert is_applicable(row.name, view) == (not refused and state not in row.already)
    stopping = structs.replace(LIVE[0], state="stopping")
    assert objection("checkpoint", stopping) == "it is stopping, which saves one anyway"
    assert objection("park", structs.replace(LIVE[0], state="running", can=())) == refusal((), "park")


def test_a_run_of_a_cluster_is_offered_what_can_be_done_there() -> None:
    """Nothing is frozen on a node, and no trainer is asked of a job that still waits for one."""
    trains = structs.replace(LIVE[0], state="running", launcher="slurm", cause=None)
    assert (is_applicable("freeze", trains), is_applicable("pause", trains)) == (False, True)
    assert never("actions", trains) is None
    assert objection("freeze", trains) == "nothing can be frozen on the node of a cluster; pause it instead"
    waits = structs.replace(trains, state="starting", cause="waits: Resources")
    begins = structs.replace(waits, cause=None)
    offered = {verb: is_applicable(verb, waits) for verb in ("pause", "checkpoint", "stop", "kill", "park")}
    assert offered == {"pause": False, "checkpoint": False, "stop": True, "kill": True, "park": True}
    assert objection("pause", waits) == "its job has not begun (waits: Resources); stop takes it from the queue"
    assert is_applicable("pause", begins)


def test_orders_are_those_that_a_request_can_carry() -> None:
    """One that a client could not ask for, or that nobody could ask for by a word, would be a key that fails."""
    assert {row.word for row in CATALOGUE if row.order} == set(get_args(ActVerb))
    assert all(row.brief and row.keys for row in CATALOGUE if row.order)


def test_names_keys_and_words_are_used_once() -> None:
    """Two rows with one key would have one of them never done."""
    for each in ([row.name for row in CATALOGUE], [row.word for row in CATALOGUE if row.word]):
        assert len(each) == len(set(each))
    keys = [key for row in CATALOGUE for key in row.keys]
    assert len(keys) == len(set(keys))


def test_a_run_that_parks_can_still_be_stopped_for_good() -> None:
    """It would come back otherwise. One that stops already is left at that; the supervisor asks the same."""
    parking = structs.replace(LIVE[0], state="stopping", parking=True)
    assert is_applicable("stop", parking)
    assert not is_done_already("stop", parking)
    assert is_done_already("stop", structs.replace(parking, parking=False))
    assert objection("stop", parking) is None
