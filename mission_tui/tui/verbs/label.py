"""`L`: put labels on a run, or take them off."""

from __future__ import annotations

from functools import partial

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Label
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.screens.line_input import LineInputScreen
from mission_tui.tui.verbs.acting import typed

__all__ = ["label"]


async def label(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Ask for the words; one without a sign is put on."""
    view = runs[0]
    has = f"It has {', '.join(view.labels)}." if view.labels else "It has none."
    about = f"+word puts a label on, -word takes it off, several with spaces between; / finds runs by them. {has}"

    async def put(said: str) -> None:
        words = said.split()
        add = tuple(word.removeprefix("+") for word in words if not word.startswith("-"))
        remove = tuple(word[1:] for word in words if word.startswith("-"))
        reply = await app_context.ask(lambda id_: Label(id=id_, run=view.id, add=add, remove=remove))
        app_context.toast(reply.notes[0] if reply.notes else f"labels of {view.name}: {' '.join(words)}")

    title = f"Labels of {view.name}"
    await typed(app_context, partial(LineInputScreen, title, about, "changes them", "+paper -draft"), put)
