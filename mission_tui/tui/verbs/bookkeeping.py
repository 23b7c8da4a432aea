"""A run's name (`E`), notes (`T`), labels (`L`) and owner (`D`); marks on its findings (`i`, `I`); trash (`Del`, `u`).

`X` removes what dead runs left behind. The trash keeps runs for a day: `u` takes back for ten seconds, the command line
for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping

from mission_tui.errors import NoSupervisorError, ProtocolError
from mission_tui.fleet.events.journal import Mark as MarkWord
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Adoptable
from mission_tui.ipc.requests import (
    UNDO_S,
    Adopt,
    Clean,
    GetAdoptable,
    Label,
    Mark,
    Note,
    Remove,
    Rename,
    Restore,
    Try,
    Undo,
)
from mission_tui.tui.screens.questions import ConfirmScreen, LeftoversScreen, ask_line
from mission_tui.tui.state.app_context import AppContext, UndoableAction
from mission_tui.tui.verbs.orders import Verb, fitting, names, no_finding, where

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

    await ask_line(app_context, f"Labels of {view.name}", about, "changes them", "+paper -draft", put)


async def rename(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Ask for the name; an empty one leaves it."""
    view = runs[0]

    async def call(name: str) -> None:
        if name != view.name:
            reply = await app_context.ask(lambda id_: Rename(id=id_, run=view.id, name=name))
            app_context.toast(f"{view.name} is now called {name}")
            # That a run which has ended is called so as well.
            app_context.warn(reply.notes[1:])

    title = f"Rename {view.name}"
    await ask_line(app_context, title, _HELP_TO_RENAME, "renames it", "baseline", call, view.name)


async def note(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Ask for the text; an empty one writes nothing."""
    view = runs[0]

    async def write(text: str) -> None:
        await app_context.ask(lambda id_: Note(id=id_, run=view.id, text=text))
        app_context.toast(f"note written for {view.name}")

    title = f"Note about {view.name}"
    await ask_line(app_context, title, _HELP_TO_NOTE, "writes it", "baseline for the paper", write)


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
        if await app_context.ask_user(ConfirmScreen(f"{item.name} would run this", facts, "adopt it")):
            await _take(app_context, item)


async def _take(app_context: AppContext, item: Adoptable) -> None:
    await app_context.ask(lambda id_: Adopt(id=id_, runs=(item.run,), digests=(item.digest,)))
    app_context.toast(f"{item.name} is yours now, as if launched here")


async def clean(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Ask for leftovers; remove those that are ours if the person says yes."""
    found = await app_context.ask(lambda id_: Clean(id=id_))
    if not found.stale:
        app_context.toast("nothing was left behind by dead runs")
        return
    if not await app_context.ask_user(LeftoversScreen(found.stale)):
        return
    keys = tuple(stale.key for stale in found.stale if stale.verdict == "ours")
    reply = await app_context.ask(lambda id_: Clean(id=id_, remove=keys))
    removed = sum(stale.removed for stale in reply.stale)
    app_context.toast(f"removed {removed} of {len(keys)}", "information" if removed == len(keys) else "warning")


async def remove(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Move the ended ones of `runs` to the trash, and say how they come back."""
    ended = fitting(app_context, "remove", runs)
    if not ended:
        return
    ids = tuple(view.id for view in ended)
    reply = await app_context.ask(lambda id_: Remove(id=id_, runs=ids))
    app_context.undo_stack.append(UndoableAction("removed", reply.runs, app_context.clock()))
    there = f"--host {ended[0].host} " if ended[0].host and len({view.host for view in ended}) == 1 else ""
    way_back = f"u brings back for {UNDO_S:.0f} s, `mission-tui {there}rm --undo` for a day"
    app_context.toast(f"moved {names(ended)}{where(ended)} to the trash: {way_back}", seconds=UNDO_S)
    app_context.redraw()


async def undo(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Kill and remove what the last launch made, or bring back what was removed; too late, it says what to do."""
    action = app_context.undoable()
    if action is None:
        app_context.toast(
            f"nothing to undo: that works for {UNDO_S:.0f} seconds after a start or removal; K kills a run"
        )
        return
    app_context.undo_stack.remove(action)
    app_context.clear()
    try:
        await _take_back(app_context, action)
    except (NoSupervisorError, ProtocolError):
        # Nothing was taken back, because no supervisor answered: `u` still means this action.
        app_context.undo_stack.append(action)
        raise


async def _take_back(app_context: AppContext, action: UndoableAction) -> None:
    runs = action.runs
    if action.how == "removed":
        back = await app_context.ask(lambda id_: Restore(id=id_, runs=runs))
        app_context.toast(f"took back {len(back.runs)} run{'s' if len(back.runs) != 1 else ''}")
        return
    if action.how == "taken":
        given = await app_context.ask(lambda id_: Try(id=id_, run=runs[0], do="return"))
        app_context.toast(given.notes[0])
        return
    reply = await app_context.ask(lambda id_: Undo(id=id_, runs=runs))
    app_context.toast(f"removed {len(reply.runs)} run{'s' if len(reply.runs) != 1 else ''}")
    app_context.warn(reply.notes)


async def acknowledge(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Acknowledge an open finding, or open an acknowledged one again."""
    view, finding = runs[0], app_context.shown.finding()
    if finding is None:
        no_finding(app_context, "acknowledge", view)
    elif finding.state == "cleared":
        app_context.toast("nothing to acknowledge: this finding is over")
    elif finding.state == "silenced":
        app_context.toast(f"{finding.rule} is silenced for {view.name}; I ends that")
    elif finding.state == "acknowledged":
        await _mark(app_context, f"{finding.rule} of {view.name} is open again", view, "open", finding=finding.id)
    else:
        told = f"{finding.rule} of {view.name} is acknowledged; it opens again if it gets worse"
        await _mark(app_context, told, view, "acknowledged", finding=finding.id)


async def silence(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Silence the rule of the chosen finding, or end that."""
    view, finding = runs[0], app_context.shown.finding()
    if finding is None:
        no_finding(app_context, "silence", view)
    elif finding.rule in view.silenced:
        await _mark(
            app_context, f"{finding.rule} is no longer silenced for {view.name}", view, "open", rule=finding.rule
        )
    else:
        told = f"{finding.rule} is silenced for {view.name}; I on its findings ends that"
        await _mark(app_context, told, view, "silenced", rule=finding.rule)


async def _mark(
    app_context: AppContext, told: str, view: RunView, mark: MarkWord, *, finding: str = "", rule: str = ""
) -> None:
    await app_context.ask(lambda id_: Mark(id=id_, run=view.id, mark=mark, finding=finding, rule=rule))
    app_context.toast(told)


VERBS: Mapping[str, Verb] = {
    "acknowledge": acknowledge,
    "silence": silence,
    "label": label,
    "rename": rename,
    "note": note,
    "adopt": adopt,
    "clean": clean,
    "remove": remove,
    "undo": undo,
}
