"""What is done to runs. Orders: `p` pause, `F` freeze, `B` park, `C` checkpoint, `s` stop, `K` kill after a question.
A run's name (`E`), notes (`T`), labels (`L`) and owner (`D`); marks on its findings (`i`, `I`); trash (`Del`, `u`).
`X` removes what dead runs left behind. And what all verbs share: which of the chosen runs a verb can apply to, and
what to say when there are none.

The trash keeps runs for a day: `u` takes back for ten seconds, the command line for the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, cast

from mission_tui.errors import NoSupervisorError, ProtocolError
from mission_tui.fleet.commands import CATALOGUE, is_done_already, never, objection
from mission_tui.fleet.events.journal import ActVerb
from mission_tui.fleet.events.journal import Mark as MarkWord
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Adoptable
from mission_tui.ipc.requests import (
    UNDO_S,
    Act,
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
from mission_tui.present.run_state import state_word
from mission_tui.tui.screens.questions import ConfirmScreen, LeftoversScreen, ask_line
from mission_tui.tui.state.app_context import AppContext, UndoableAction

LATE_S = 2.0
"""An order without an answer for so long is said to be under way: of a line that hangs ssh lets go after 15 s."""

Verb = Callable[[AppContext, tuple[RunView, ...]], Coroutine[Any, Any, None]]


def _order(verb: str) -> Verb:
    """Ask it of those runs in whose state it means something; a second `s` on a stopping run changes nothing."""

    async def give(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
        if fit := fitting(app_context, verb, runs):
            await act(app_context, verb, fit)

    return give


async def kill(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Kill the live and queued ones of `runs`, if the person says yes; `s` there stops them."""
    live = fitting(app_context, "kill", runs)
    if not live:
        return
    facts = [f"{view.name}: {_loss(view)}" for view in live]
    saves = all("checkpoint" in view.can for view in live)
    instead = "stops and saves instead" if saves else "lets it end (SIGTERM) instead"
    title = f"Kill {names(live)}{where(live)}?"
    answer = await app_context.ask_user(ConfirmScreen(title, facts, "kill now", instead))
    if answer:
        await act(app_context, "kill", live)
    elif answer is not None and (stoppable := fitting(app_context, "stop", live)):
        await act(app_context, "stop", stoppable)


def _loss(view: RunView) -> str:
    if "checkpoint" not in view.can:
        return "what its command has not saved itself is lost"
    if view.update is None:
        return "has learned nothing yet"
    if view.last_checkpoint is None:
        return "has no checkpoint; everything learned so far is lost"
    return f"everything after checkpoint {view.last_checkpoint} is lost"


def able(app_context: AppContext, verb: str, runs: Sequence[RunView]) -> tuple[RunView, ...]:
    """Those of `runs` that can do `verb` in any state; says why not when none can."""
    if app_context.snapshot is not None:
        known = {view.id for view in app_context.snapshot.runs}
        gone, runs = runs, [view for view in runs if view.id in known]
        if gone and not runs:
            app_context.toast(f"cannot {verb} {names(gone)}: not there any more", "warning")
    can = tuple(view for view in runs if never(verb, view) is None)
    if runs and not can:
        app_context.toast(f"cannot {verb} {names(runs)}: {never(verb, runs[0])}", "warning")
    return can


def fitting(app_context: AppContext, verb: str, runs: Sequence[RunView]) -> tuple[RunView, ...]:
    """The runs in a state in which `verb` means something; says so when there is none."""
    fit = tuple(it for it in runs if not is_done_already(verb, it) and objection(verb, it) is None)
    if not fit and runs:
        one = runs[0]
        if len(runs) == 1 and one.job_waits and (against := objection(verb, one)):
            app_context.toast(f"cannot {verb} {one.name}: {against}", "warning")
            return fit
        app_context.toast(
            f"nothing to {verb}: {one.name} is {state_word(one)}"
            if len(runs) == 1
            else f"nothing to {verb} among these"
        )
    return fit


async def act(app_context: AppContext, verb: str, runs: Sequence[RunView]) -> None:
    """Ask for `verb`. What comes of it shows in the snapshots: a toast has only acceptance and notes."""
    ids = tuple(view.id for view in runs)
    late = f"{verb} {names(runs)}{where(runs)}: no answer yet"
    waiting = asyncio.get_running_loop().call_later(LATE_S, app_context.toast, late)
    try:
        reply = await app_context.ask(lambda id_: Act(id=id_, verb=cast(ActVerb, verb), runs=ids))
    finally:
        waiting.cancel()
    app_context.toast(f"{verb} accepted for {names(runs)}{where(runs)}")
    app_context.warn(reply.notes)


def no_finding(app_context: AppContext, verb: str, view: RunView) -> None:
    """Say that there is no finding to `verb`, and where those are that are over or known already."""
    others = "; h shows the others" if view.findings else ""
    app_context.toast(f"nothing to {verb}: {view.name} has no open finding{others}")


def where(runs: Sequence[RunView]) -> str:
    """` on gpu1 and here`; nothing on a screen of this machine alone."""
    machines = " and ".join(dict.fromkeys(view.host for view in runs if view.host))
    return f" on {machines}" if machines else ""


def names(runs: Sequence[RunView]) -> str:
    """`heavy-3f9a`, `heavy-3f9a and wide-11c0`, `heavy-3f9a and 4 more`."""
    if len(runs) <= 2:
        return " and ".join(view.name for view in runs)
    return f"{runs[0].name} and {len(runs) - 1} more"


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
    **{row.name: _order(row.name) for row in CATALOGUE if row.order},
    "kill": kill,  # it asks first
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
