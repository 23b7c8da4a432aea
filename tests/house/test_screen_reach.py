"""Whatever the command line can do is reached from the screen: by a key, or by its name in the palette."""

from __future__ import annotations

from mission_tui.cli.root import MODULES
from mission_tui.fleet.commands import CATALOGUE, WORDS
from mission_tui.tui.actions import ACTIONS


def test_every_command_is_reached_from_the_screen() -> None:
    """By an action with its key or by a line that the palette begins, and never by neither."""
    actions = {action.name for action in ACTIONS}
    assert {row.name for row in CATALOGUE if row.keys} <= actions
    assert [row.name for row in CATALOGUE if not row.keys and not row.word] == []
    assert [row.name for row in CATALOGUE if not row.keys and row.name in actions] == []


def test_the_command_line_has_every_word_of_the_catalogue() -> None:
    """A command that has a word is a verb, and every verb is a command; orders need no module of their own."""
    assert set(MODULES) | {word for word, row in WORDS.items() if row.order} == set(WORDS)
