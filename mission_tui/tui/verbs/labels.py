"""A run's name (`E`), notes (`T`) and labels (`L`); and `D`: a foreign run, taken for one's own once it was seen."""

from __future__ import annotations

from functools import partial

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Adoptable
from mission_tui.ipc.requests import Adopt, GetAdoptable, Label, Note, Rename
from mission_tui.tui.screens.questions import ConfirmScreen, LineInputScreen, typed
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.verbs.orders import names

__all__ = ["adopt", "label", "note", "rename"]

_HELP_TO_RENAME = "Letters, digits, dots, dashes and underscores. Its id and its folder stay what they are."
_HELP_TO_NOTE = "One line. The newest is shown with the run, all of them in its journal (J)."


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


async def rename(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Ask for the name; an empty one leaves it."""
    view = runs[0]
    title = f"Call {view.name} something else"

    async def call(name: str) -> None:
        if name != view.name:
            await app_context.ask(lambda id_: Rename(id=id_, run=view.id, name=name))
            app_context.toast(f"{view.name} is called {name} from now on")

    await typed(
        app_context, partial(LineInputScreen, title, _HELP_TO_RENAME, "renames it", "baseline"), call, view.name
    )


async def note(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Ask for the text; an empty one writes nothing."""
    view = runs[0]

    async def write(text: str) -> None:
        await app_context.ask(lambda id_: Note(id=id_, run=view.id, text=text))
        app_context.toast(f"noted about {view.name}")

    make = partial(LineInputScreen, f"Note about {view.name}", _HELP_TO_NOTE, "writes it", "baseline for the paper")
    await typed(app_context, make, write)


async def adopt(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Show each foreign run's sheet in turn; those that get a yes are adopted as they were shown."""
    foreign = tuple(view for view in runs if "foreign" in view.flags)
    if not foreign:
        app_context.toast(f"{names(runs)}: yours already" if runs else "no run is chosen")
        return
    ids = tuple(view.id for view in foreign)
    reply = await app_context.ask(lambda id_: GetAdoptable(id=id_, runs=ids))
    for item in reply.items:
        if not item.digest:
            app_context.toast(f"{item.name}: {item.why}")
            continue
        facts = [f"foreign: {item.why}", *(f"{row.kind}: {row.value}" for row in item.rows)]
        if await app_context.ask_user(ConfirmScreen(f"{item.name} would run this", facts, "take it for yours")):
            await _take(app_context, item)


async def _take(app_context: AppContext, item: Adoptable) -> None:
    await app_context.ask(lambda id_: Adopt(id=id_, runs=(item.run,), digests=(item.digest,)))
    app_context.toast(f"{item.name} is yours now, as if launched here")
