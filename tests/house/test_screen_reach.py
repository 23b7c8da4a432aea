"""Whatever the command line can do is reached from the screen: by a key, or by its name in the palette."""

from __future__ import annotations

from mission_tui.cli.root import VERBS
from mission_tui.tui.actions import ACTIONS
from mission_tui.tui.verbs.palette import COMMANDS

OTHER_NAMES = {"logs": "log", "rm": "remove"}
"""Verbs whose action is called otherwise."""


def test_every_verb_of_the_command_line_is_reached_from_the_screen() -> None:
    """By an action with a key or by a line that the palette begins; no verb by both, and none is named that is gone."""
    actions = {action.name for action in ACTIONS}
    acted = {verb for verb in VERBS if OTHER_NAMES.get(verb, verb) in actions}
    assert acted | COMMANDS.keys() == set(VERBS)
    assert acted & COMMANDS.keys() == set()
