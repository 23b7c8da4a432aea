"""`;`: a line of the command line, carried out for this runs root; what it says is shown as it comes.

Verbs that have no key of their own are in the palette by their names.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial

from mission_tui.errors import UsageError
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.screens.line_input import LineInputScreen
from mission_tui.tui.verbs.acting import typed

__all__ = ["COMMANDS", "command", "type_command"]

COMMANDS: Mapping[str, str] = {
    "status": "every run in a line, or as JSON",
    "top": "what each run takes of the machine",
    "metrics": "a run's rows, for other programs",
    "wait": "until runs have ended",
    "judge": "a training of another program by its TensorBoard files",
    "bench": "how fast presets are, beside each other",
    "tune": "the fastest way to run a preset on this machine",
    "export": "a checkpoint as a zip for Stable-Baselines3",
    "import-checkpoint": "a zip of Stable-Baselines3 as a run",
    "import-run": "a whole folder of a Stable-Baselines3 run",
    "prune": "old runs and checkpoints into the trash",
    "presets": "what can be started, and what is in it",
    "check": "a preset for mistakes, before it is started",
    "paths": "where everything is",
    "doctor": "what this machine lacks",
    "supervisor": "its state, its log",
    "service": "go on after a reboot",
}
"""Verbs without a key, and what they are for."""

_HELP = "A verb and its options, as after mission-tui in a shell; VERB --help says which there are."


async def command(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Ask for the line."""
    await type_command(app_context, "")


async def type_command(app_context: AppContext, begun: str) -> None:
    """Ask for the line that begins so, and carry it out."""
    from mission_tui.tui.screens.output import OutputScreen

    async def carry_out(said: str) -> None:
        try:
            words = shlex.split(said)
        except ValueError as error:
            raise UsageError(f"that is no whole line: {str(error).lower()}") from error
        if words[:1] == ["mission-tui"]:
            del words[0]
        if words and app_context.snapshot is not None:
            app_context.open(OutputScreen(app_context, words, app_context.snapshot.runs_root))

    make = partial(LineInputScreen, "mission-tui", _HELP, "carries it out", "metrics --help")
    await typed(app_context, make, carry_out, begun)
