"""`E`: call a run something else."""

from __future__ import annotations

from functools import partial

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Rename
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.screens.line_input import LineInputScreen
from mission_tui.tui.verbs.acting import typed

__all__ = ["rename"]

_HELP = "Letters, digits, dots, dashes and underscores. Its id and its folder stay what they are."


async def rename(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Ask for the name; an empty one leaves it."""
    view = runs[0]
    title = f"Call {view.name} something else"

    async def call(name: str) -> None:
        if name != view.name:
            await app_context.ask(lambda id_: Rename(id=id_, run=view.id, name=name))
            app_context.toast(f"{view.name} is called {name} from now on")

    await typed(app_context, partial(LineInputScreen, title, _HELP, "renames it", "baseline"), call, view.name)
