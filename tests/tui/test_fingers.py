"""The keys that people bring in their fingers, as they were promised: an act, its keys, where they work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import pytest

from mission_tui.tui.actions import ACTIONS, Place, key_label, launches, offered
from mission_tui.tui.screens.questions import Picker
from mission_tui.tui.screens.sheets import HelpScreen
from tests.tui.stage import PRESETS, staged

ALL: tuple[Place, ...] = get_args(Place)
LISTS: tuple[Place, ...] = ("fleet", "machine")
RUNS: tuple[Place, ...] = ("fleet", "run")

FINGERS: Sequence[tuple[str, str, Sequence[Place], str]] = (
    ("help", "? f1", ALL, "help"),
    ("leave, runs go on", "q", ALL, "leave"),
    ("back one layer, never quits", "escape", ALL, "back"),
    ("move", "up k", ALL, "up"),
    ("move", "down j", ALL, "down"),
    ("move", "home", ALL, "first"),
    ("move", "end", ALL, "last"),
    ("move", "pageup", ALL, "page up"),
    ("move", "pagedown", ALL, "page down"),
    ("next pane", "tab", ("fleet",), "next pane"),
    ("tab of a run", "[", RUNS, "previous tab"),
    ("tab of a run", "]", RUNS, "next tab"),
    ("tab of a run", "left", RUNS, "left"),
    ("tab of a run", "right", RUNS, "right"),
    ("start a preset at once", "1 2 3 4 P", ALL, "launch"),
    ("undo for ten seconds", "u", ALL, "undo"),
    ("panes or table", "v", ("fleet",), "views"),
    ("open", "enter", LISTS, "open"),
    ("maximise a pane", "z", ALL, "maximise"),
    ("filter the focused pane", "/", RUNS, "filter"),
    ("sort", "<", LISTS, "sort left"),
    ("sort", ">", LISTS, "sort right"),
    ("mark several", "space", ("fleet",), "mark"),
    ("pause", "p", ALL, "pause"),
    ("resume", "r", ALL, "resume"),
    ("stop gracefully", "s", ALL, "stop"),
    ("kill", "K", ALL, "kill"),
    ("freeze", "F", ALL, "freeze"),
    ("park", "B", ALL, "park"),
    ("new run with changes", "n", ALL, "new"),
    ("all actions for the chosen run", "x", ALL, "actions"),
    ("logs", "l", ALL, "log"),
    ("details", "d", ALL, "details"),
    ("evaluate", "e", ALL, "evaluate"),
    ("compare", "c", ALL, "compare"),
    ("machine", "m", ALL, "machine"),
    ("apply a finding's advice", "a", ALL, "apply"),
    ("mute it", "i", ALL, "acknowledge"),
    ("mute its rule", "I", ALL, "silence"),
    ("copy", "y", ALL, "copy"),
    ("shell in the run's folder", "!", ALL, "shell"),
    ("redraw", "ctrl+l", ALL, "redraw"),
    ("suspend", "ctrl+z", ALL, "suspend"),
    ("command palette", ": ctrl+p", ALL, "palette"),
    ("the command line's verbs", ";", ALL, "command"),
    ("faster redraw", "+", ALL, "faster"),
    ("slower redraw", "-", ALL, "slower"),
    ("refresh", "f5", ALL, "refresh"),
    ("more room", "=", ALL, "larger"),
    ("less room", "_", ALL, "smaller"),
    ("checkpoint now", "C", ALL, "checkpoint"),
    ("clean up", "X", ALL, "clean"),
    ("findings", "h", ALL, "findings"),
    ("bell", "b", ALL, "bell"),
    ("replay", "H", ALL, "replay"),
    ("watch the policy play", "w", ALL, "watch"),
    ("what was missed while away", "M", ALL, "away"),
    ("how far back the strip goes", "{", LISTS, "longer"),
    ("how far back the strip goes", "}", LISTS, "shorter"),
)


@pytest.mark.parametrize(("act", "keys", "places", "name"), FINGERS, ids=[f"{it[0]}-{it[1]}" for it in FINGERS])
def test_a_promised_key_does_its_act(act: str, keys: str, places: Sequence[Place], name: str) -> None:
    """In each place where it was promised it is bound to the one action of the table that carries it."""
    for place in places:
        here = {key: action.name for action in offered(place, readonly=False) for key in action.keys}
        assert {key: here.get(key) for key in keys.split()} == dict.fromkeys(keys.split(), name), act


def test_a_key_is_never_something_else_somewhere() -> None:
    """What acts on runs has its key alone: no other place gives it to something harmless, or the other way round."""
    meanings: dict[str, set[str]] = {}
    for action in ACTIONS:
        for key in action.keys:
            meanings.setdefault(key, set()).add(action.name)
    acting = {action.name for action in ACTIONS if action.changes}
    assert {key: names for key, names in meanings.items() if names & acting and len(names) > 1} == {}
    assert (meanings["k"], meanings["p"], meanings["/"]) == ({"up"}, {"pause"}, {"filter"})


@pytest.mark.parametrize("place", ALL)
def test_the_help_of_a_place_has_a_line_for_every_key(place: Place) -> None:
    """With all keys of the action, its name and all of its words; presets stand for the keys that start them."""
    lines = {strip.text.strip() for strip in HelpScreen(place, PRESETS, readonly=False).lines(400)}
    named = {" ".join(line.split()) for line in lines}
    for action in offered(place, readonly=False):
        if action.name == "launch":
            here = [preset for preset in PRESETS if launches(preset.key or "", place)]
            assert {f"{preset.key} start {preset.name} at once: {preset.description}" for preset in here} <= named
        else:
            said = action.help if action.group == "move" else f"{action.name}: {action.help}"
            assert " ".join([*map(key_label, action.keys), said]) in named


def test_what_is_in_no_palette_is_moving_about_or_needs_no_name() -> None:
    """Everything else is found there by typing, whatever key it has; what plays in the tab watch has keys alone."""
    unnamed = {action.name for action in ACTIONS if not action.menu and action.group not in ("move", "watch")}
    in_a_replay = {"back in time", "forward in time", "finer", "coarser", "go to"}
    assert unnamed == {"launch", "actions", "palette"} | in_a_replay


async def test_keys_that_only_look_do_what_they_promise() -> None:
    """The palette by its second key, the rate up and down, and a repaint; Escape at the bottom does not leave."""
    async with staged() as stage:
        await stage.press("ctrl+p")
        await stage.until(lambda: isinstance(stage.screen, Picker))
        await stage.press("escape", "-", "-", "+")
        assert stage.app.arrivals.pace.rate_hz == 2.0
        await stage.press("ctrl+l", "escape", "escape")
        assert stage.app.is_running
        await stage.shows("heavy-3f9a")
