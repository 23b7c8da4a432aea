"""`T`: write something about a run into its journal."""

from __future__ import annotations

from functools import partial

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Note
from mission_tui.tui.desk import Desk
from mission_tui.tui.screens.words import LineScreen
from mission_tui.tui.verbs.acting import typed

__all__ = ["note"]

_HELP = "One line. The newest is shown with the run, all of them in its journal (J)."


async def note(desk: Desk, runs: tuple[RunView, ...]) -> None:
    """Ask for the text; an empty one writes nothing."""
    view = runs[0]

    async def write(text: str) -> None:
        await desk.ask(lambda id_: Note(id=id_, run=view.id, text=text))
        desk.tell(f"noted about {view.name}")

    make = partial(LineScreen, f"Note about {view.name}", _HELP, "writes it", "baseline for the paper")
    await typed(desk, make, write)
