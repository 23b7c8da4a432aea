"""A line of the command line, asked for on the screen and carried out there."""

from __future__ import annotations

import shlex

from mission_tui.errors import UsageError
from mission_tui.tui.screens.info_sheets import OutputScreen
from mission_tui.tui.screens.questions import ask_line
from mission_tui.tui.state.app_context import AppContext

_HELP = "A verb and its options, as after mission-tui in a shell; VERB --help says which there are."


async def type_command(app_context: AppContext, begun: str) -> None:
    """Ask for the line that begins so, and carry it out. Of several machines it has to say on which: that of the chosen
    run stands there already.
    """
    words: list[str] = []
    machines = app_context.snapshot.hosts if app_context.snapshot is not None else ()
    if machines:
        one = app_context.shown.chosen()
        begun = f"--host {machines[0].name if one is None else one.host} {begun}"

    async def split(said: str) -> None:
        try:
            words[:] = shlex.split(said)
        except ValueError as error:
            raise UsageError(f"the line is not complete: {str(error).lower()}") from error
        if words[:1] == ["mission-tui"]:
            del words[0]
        if machines and not any(word == "--host" or word.startswith("--host=") for word in words):
            names = " or ".join(f"--host {machine.name}" for machine in machines)
            raise UsageError(f"say on which machine: {names}")

    await ask_line(app_context, "mission-tui", _HELP, "carries it out", "metrics --help", split, begun)
    if words and app_context.snapshot is not None:
        root = app_context.snapshot.runs_root
        if machines:  # without `here` among them no runs root of this machine is meant
            root = next((machine.runs_root for machine in machines if not machine.away), "")
        app_context.open(OutputScreen(app_context, words, root))
