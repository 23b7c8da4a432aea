"""What one looks at, and how: comparison, machine, evaluation, help, time away; the strip's reach and split sizes."""

from __future__ import annotations

from collections.abc import Mapping

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import GetSnapshot, GetUpgrades
from mission_tui.tui.screens.away import AwayScreen
from mission_tui.tui.screens.evaluation import EvaluationScreen
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.verbs.orders import Verb
from mission_tui.tui.widgets.split_container import SplitContainer
from mission_tui.tui.widgets.timeline import Timeline


async def compare(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Open the comparison, or say what there is none of."""
    # Statistics and curves are needed here alone.
    from mission_tui.fleet.compare import MOST
    from mission_tui.tui.screens.compare import CompareScreen

    if len(runs) == 1:
        known = app_context.snapshot.runs if app_context.snapshot else ()
        before = [view for view in known if _age(view) < _age(runs[0])]
        if not before:
            app_context.toast("nothing to compare it with: Space marks runs, c compares the marked ones")
            return
        runs = (max(before, key=_age), runs[0])
    if len(runs) > MOST:
        app_context.toast(f"{len(runs)} runs are marked, and {MOST} are the most that can be told apart", "warning")
        return
    # The first is what others are held against, and that is the one they came after.
    app_context.open(CompareScreen(app_context, tuple(sorted(runs, key=_age))))


def _age(view: RunView) -> tuple[float, str]:
    return view.created_t, view.id


async def away(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Show it run by run; also after the lines below the meters were closed."""
    if app_context.coming_back.away is None:
        app_context.toast("nothing happened while you were away")
        return
    await app_context.ask_user(AwayScreen(app_context.coming_back.away, app_context.coming_back.best))


async def machine(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Open it with the cursor on the run that was looked at; it is never opened over itself."""
    # Its tables are needed here alone.
    from mission_tui.tui.screens.machine import MachineScreen

    shown = app_context.shown
    if any(isinstance(screen, MachineScreen) for screen in shown.app.screen_stack):
        shown.dismiss(None)
    else:
        app_context.open(MachineScreen(app_context, shown.chosen()))


async def evaluate(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Evaluate the first of `runs`; leaving the screen lets it go on, and its result then comes as a toast."""
    view = runs[0]
    if view.last_checkpoint is None:
        app_context.toast(f"{view.name} has no checkpoint to evaluate yet; C saves one")
        return
    app_context.open(EvaluationScreen(app_context, view))


async def help_(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Open the help of the present screen."""
    from mission_tui.tui.screens.help import HelpScreen

    app_context.open(HelpScreen(app_context.shown.PLACE, app_context.presets, readonly=app_context.readonly))


async def refresh(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Read all of it again."""
    await app_context.read_presets()
    reply = await app_context.ask(lambda id_: GetSnapshot(id=id_))
    app_context.arrived(reply.snapshot)
    app_context.toast("refreshed", seconds=2.0)
    # Last, because it asks each interpreter, which takes a moment.
    found = await app_context.ask(lambda id_: GetUpgrades(id=id_))
    for one in found.upgrades:
        what = "; ".join(f"{change.name}: {change.was} -> {change.now}" for change in one.changes)
        app_context.toast(f"changed under {one.name} since it was launched: {what}", "warning")


async def copy(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Copy the ids of `runs`, separated by blanks."""
    ids = " ".join(view.id for view in runs)
    app_context.copy(ids)
    app_context.toast(f"copied {ids}")


async def bell(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Turn the bell off or on, until it is turned again."""
    app_context.alarm.muted = not app_context.alarm.muted
    rings = "stays quiet; toasts still tell of critical findings" if app_context.alarm.muted else "rings again"
    app_context.toast(f"the terminal {rings}", seconds=3.0)


async def longer(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Show a longer stretch."""
    _turn(app_context, 1)


async def shorter(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Show a shorter stretch, more finely."""
    _turn(app_context, -1)


def _turn(app_context: AppContext, by: int) -> None:
    if not any(widget.display for widget in app_context.shown.query(Timeline)):
        app_context.toast("the strip is not shown here: m opens the machine")
        return
    app_context.zoom.turn(by)
    app_context.redraw()


async def larger(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """More room for the detail, the chart, the finding or the strip."""
    _step(app_context, 1)


async def smaller(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Less room for it."""
    _step(app_context, -1)


async def usual_sizes(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Every part as large as it comes."""
    app_context.shares.forget()
    app_context.redraw()


def _step(app_context: AppContext, by: int) -> None:
    splits = (parted.split() for parted in app_context.shown.query(SplitContainer) if parted.display)
    split = next((split for split in splits if split is not None), None)
    if split is None:
        app_context.toast("nothing stands beside this: detail, chart, finding and strip can be larger or smaller")
    elif not app_context.shares.step(split, by):
        app_context.toast("that is as far as it goes", seconds=2.0)
    else:
        app_context.redraw()


VERBS: Mapping[str, Verb] = {
    "compare": compare,
    "away": away,
    "machine": machine,
    "evaluate": evaluate,
    "help": help_,
    "refresh": refresh,
    "copy": copy,
    "bell": bell,
    "longer": longer,
    "shorter": shorter,
    "larger": larger,
    "smaller": smaller,
    "usual sizes": usual_sizes,
}
