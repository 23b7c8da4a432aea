"""The table of actions: everything that shows keys agrees with it, and no key is dead."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import get_args

import pytest
from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.actions import ACTIONS, Place, key_label, offered
from mission_tui.tui.screens.fleet import FleetScreen
from mission_tui.tui.screens.machine import MachineScreen
from mission_tui.tui.screens.run import RunScreen
from mission_tui.tui.screens.snapshot_screen import bindings
from mission_tui.tui.state.fleet_view_state import FleetViewState
from mission_tui.tui.state.presets import PresetChoice
from mission_tui.tui.verbs import VERBS
from mission_tui.tui.widgets.bars import fitting, hints
from tests.tui.fleets import ENDED, ENTROPY_FINDING, KL_FINDING, LIVE
from tests.tui.stage import PRESETS, staged


@pytest.mark.parametrize("place", get_args(Place))
def test_no_key_means_two_things_in_one_place(place: Place) -> None:
    """Each key is bound once; in the tab watch some are asked first whether they mean something there."""
    keys = Counter(binding.key for binding in bindings(place) if not binding.action.startswith("screen.play("))
    assert [key for key, times in keys.items() if times > 1] == []
    first = {binding.key: binding.action for binding in reversed(bindings(place))}
    playing = {binding.key for binding in bindings(place) if binding.action.startswith("screen.play(")}
    assert {key for key in playing if not first[key].startswith("screen.play(")} == set()


def test_every_verb_of_the_table_exists_and_none_is_unused() -> None:
    """`app.do(name)` always finds its verb, and every verb has a key."""
    done = {action.name for action in ACTIONS if action.call == f"app.do('{action.name}')"}
    assert done == set(VERBS)


@pytest.mark.parametrize(("screen", "place"), [(FleetScreen, "fleet"), (RunScreen, "run"), (MachineScreen, "machine")])
def test_every_screen_action_is_answered_by_its_screen(screen: type, place: Place) -> None:
    """`screen.x` names a method of each screen the action is offered on."""
    for action in offered(place, readonly=False):
        target, _, rest = action.call.partition(".")
        if target == "screen":
            assert hasattr(screen, f"action_{rest.partition('(')[0]}"), action.name


def test_every_way_of_looking_is_known_to_the_outlook() -> None:
    """`screen.look('...')` on the fleet screen never meets an unknown word."""
    for action in offered("fleet", readonly=False):
        if action.call.startswith("screen.look("):
            FleetViewState().act(action.call.split("'")[1], panes_shown=False)


def test_the_footer_offers_the_finding_keys_where_there_is_one() -> None:
    """Not without a finding, not for one that is over; on the run's own screen they are the last to go."""

    def offered_for(place: Place, finding: Finding | None, width: int) -> set[str]:
        shown = hints(place, PRESETS, LIVE[1], finding, readonly=False, undoable=False)
        return {hint.label for hint in fitting(shown, width)} & {"apply", "ack", "silence"}

    assert offered_for("run", None, 200) == set()
    assert offered_for("run", ENTROPY_FINDING, 200) == set()
    assert offered_for("run", KL_FINDING, 40) == {"apply", "ack", "silence"}
    assert offered_for("fleet", KL_FINDING, 80) == {"apply"}
    asks_nothing = structs.replace(KL_FINDING, severity="info", advice="", advice_set=())
    assert offered_for("run", asks_nothing, 200) == {"ack", "silence"}


def test_destructive_actions_are_marked() -> None:
    """What cannot be taken back is declared so."""
    assert {action.name for action in ACTIONS if action.destructive} == {"kill", "clean"}


async def test_help_contains_every_action() -> None:
    """Scrolled from top to bottom, the help shows each action's keys and words."""
    async with staged() as stage:
        await stage.press("question_mark")
        seen = ""
        while stage.text() not in seen:
            seen += stage.text() + "\n"
            await stage.press("pagedown")
        for action in offered("fleet", readonly=False):
            if action.name == "launch":
                assert "start demo at once" in seen
                continue
            assert action.help.split(" ")[0] in seen
            assert f"  {' '.join(key_label(key) for key in action.keys)} " in seen, action.name


async def test_f1_opens_help_and_closes_it() -> None:
    """The same key leads back."""
    async with staged() as stage:
        await stage.press("f1")
        await stage.shows("Shift-drag selects text")
        await stage.press("f1")
        assert len(stage.app.screen_stack) == 1


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
def test_the_footer_fits_any_width(width: int) -> None:
    """Hints go by rank, never half; presets stay longest."""
    shown = fitting(hints("fleet", PRESETS, None, readonly=False, undoable=True), width)
    gaps = sum(one.group != other.group for one, other in pairwise(shown))
    assert sum(hint.cells for hint in shown) + gaps <= width - 1
    if width >= 80:
        assert [hint.key for hint in shown][:6] == ["u", "1", "2", "3", "4", "P"]


@pytest.mark.parametrize(("width", "keys"), [(80, "1234567x"), (60, "12345x"), (40, "123x")])
def test_of_many_presets_the_last_ones_give_way(width: int, keys: str) -> None:
    """The first stay, and so does what leads to everything that can be done with the chosen run."""
    many = [PresetChoice(f"preset{key}", key=key) for key in "0123456789"]
    shown = fitting(hints("fleet", many, LIVE[0], readonly=False, undoable=False), width)
    assert "".join(hint.key for hint in shown) == keys


def test_the_footer_offers_what_fits_the_chosen_run() -> None:
    """An ended run can be resumed and not stopped; a running one the other way round; a paused one both."""

    def offered_for(view: RunView) -> set[str]:
        return {hint.label for hint in hints("fleet", (), view, readonly=False, undoable=False)}

    assert {"resume", "stop"} & offered_for(ENDED[0]) == {"resume"}
    assert {"resume", "stop"} & offered_for(LIVE[0]) == {"stop"}
    assert {"resume", "stop"} & offered_for(LIVE[2]) == {"resume", "stop"}
