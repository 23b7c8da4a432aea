"""Which actions mean something for a run as it stands."""

from __future__ import annotations

from typing import get_args

from msgspec import structs

from mission_tui.fleet.events.outcome import RunState
from mission_tui.tui.actions import ACTIONS, STATES, is_applicable
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
    """A run that never saved can neither go on nor be played; a command may begin again all the same."""
    bare = ended("bare-0000", 5, "failed", last_checkpoint=None)
    assert not any(is_applicable(verb, bare) for verb in ("resume", "resume with", "evaluate"))
    assert is_applicable("resume", structs.replace(bare, can=()))


def test_what_is_for_findings_needs_one_that_it_can_do_something_about() -> None:
    """Advice is applied where there is some, and only while the finding is open."""
    assert is_applicable("apply", LIVE[1], KL_FINDING)
    assert not is_applicable("apply", LIVE[1])
    assert not is_applicable("set advice", LIVE[1], structs.replace(KL_FINDING, advice_set=()))
    assert not is_applicable("silence", LIVE[1], structs.replace(KL_FINDING, state="cleared"))


def test_the_table_names_actions() -> None:
    """A name that no action has would decide nothing."""
    assert STATES.keys() <= {action.name for action in ACTIONS}
