"""A line of the command line, asked for on the screen and carried out there."""

from __future__ import annotations

import shlex

from mission_tui.errors import UsageError
from mission_tui.tui.screens.info_sheets import OutputScreen
from mission_tui.tui.screens.questions import ask_line
from mission_tui.tui.state.app_context import AppContext

_HELP = "A verb and its options, as after mission-tui in a shell; VERB --help says which there are."


async def type_command(app_context: AppContext, begun: str) -> None:
    """Ask for the line that begins so, and carry it out."""

    words: list[str] = []

    async def split(said: str) -> None:
        try:
            words[:] = shlex.split(said)
        except ValueError as error:
            raise UsageError(f"the line is not complete: {str(error).lower()}") from error
        if words[:1] == ["mission-tui"]:
            del words[0]

    await ask_line(app_context, "mission-tui", _HELP, "carries it out", "metrics --help", split, begun)
    if words and app_context.snapshot is not None:
        app_context.open(OutputScreen(app_context, words, app_context.snapshot.runs_root))
