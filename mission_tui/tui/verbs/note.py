"""`T`: write something about a run into its journal."""

from __future__ import annotations

from functools import partial

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Note
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.screens.line_input import LineInputScreen
from mission_tui.tui.verbs.acting import typed

__all__ = ["note"]

_HELP = "One line. The newest is shown with the run, all of them in its journal (J)."


async def note(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Ask for the text; an empty one writes nothing."""
    view = runs[0]

    async def write(text: str) -> None:
        await app_context.ask(lambda id_: Note(id=id_, run=view.id, text=text))
        app_context.toast(f"noted about {view.name}")

    make = partial(LineInputScreen, f"Note about {view.name}", _HELP, "writes it", "baseline for the paper")
    await typed(app_context, make, write)
