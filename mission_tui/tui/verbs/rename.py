"""`E`: call a run something else."""

from __future__ import annotations

from functools import partial

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Rename
from mission_tui.tui.desk import Desk
from mission_tui.tui.screens.words import LineScreen
from mission_tui.tui.verbs.acting import typed

__all__ = ["rename"]

_HELP = "Letters, digits, dots, dashes and underscores. Its id and its folder stay what they are."


async def rename(desk: Desk, runs: tuple[RunView, ...]) -> None:
    """Ask for the name; an empty one leaves it."""
    view = runs[0]
    title = f"Call {view.name} something else"

    async def call(name: str) -> None:
        if name != view.name:
            await desk.ask(lambda id_: Rename(id=id_, run=view.id, name=name))
            desk.tell(f"{view.name} is called {name} from now on")

    await typed(desk, partial(LineScreen, title, _HELP, "renames it", "baseline"), call, view.name)
