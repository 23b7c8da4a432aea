"""What is shown, and of when and where: comparison, machine, evaluation, help, time away; the strip's length and split
sizes; a replay (`H`) and its moments, another runs root (`W`), a shell in the run's folder (`!`), Ctrl-Z. And pictures
of it as files in the folder that the screen was started in: the whole screen (F12), and the charts of a run as lines
(Ctrl-S), always as SVG, and as PNG where the extra `report` is installed.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mission_tui.errors import UsageError, install_words
from mission_tui.fleet.commands import objection
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.specs.quantity import BACK_S, parse_moment
from mission_tui.fleet.specs.spec import is_driver
from mission_tui.fleet.views.seed_group import launched_with
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import GetSnapshot, GetUpgrades
from mission_tui.paths import SERVED
from mission_tui.present.numbers import metric_title
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import home_relative
from mission_tui.tui.screens.questions import Choice, Picker, ask_line
from mission_tui.tui.screens.sheets import AwayScreen, EvaluationScreen, HelpScreen
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.preferences import Over
from mission_tui.tui.verbs.acts import Verb
from mission_tui.tui.widgets.charts import ComparisonChart, drawn_curves
from mission_tui.tui.widgets.curves import Curves
from mission_tui.tui.widgets.lines import SplitContainer
from mission_tui.tui.widgets.timeline import Timeline

if TYPE_CHECKING:
    from textual.app import App

    from mission_tui.tui.plot.picture_file import Surface

    Draw = Callable[[Surface], None]


async def screenshot(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """The screen as it is, toasts and sheets included."""
    # Drawing files is needed here alone, as below.
    from mission_tui.tui.plot.picture_file import draw_screen, size_of
    from mission_tui.tui.textual_fixes.screen_cells import cells_of

    ground = colours.PALETTE.ground
    rows = cells_of(app_context.shown.app, colours.PALETTE.ink, ground)
    await _save(app_context, "screen", size_of(rows), ground, lambda surface: draw_screen(surface, rows, ground))


def file_of(app: App[int], kind: Literal["svg", "png"]) -> bytes:
    """The screen of `app` as a file. Raises `UsageError` for a PNG where there is nothing to draw it with."""
    from mission_tui.tui.plot.picture_file import PngSurface, SvgSurface, draw_screen, fonts_folder, size_of
    from mission_tui.tui.textual_fixes.screen_cells import cells_of

    ground, fonts = colours.PALETTE.ground, fonts_folder()
    if kind == "png" and fonts is None:
        raise UsageError(f"a PNG needs Pillow and matplotlib's fonts: {install_words('report')}; .svg needs nothing")
    rows = cells_of(app, colours.PALETTE.ink, ground)
    surface: SvgSurface | PngSurface = SvgSurface(*size_of(rows), ground)
    if kind == "png" and fonts is not None:
        surface = PngSurface(*size_of(rows), ground, fonts)
    draw_screen(surface, rows, ground)
    return surface.data()


async def chart(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """The charts that are shown, one below the other; on a comparison its curves."""
    from mission_tui.tui.plot.picture_file import GROUND, WIDTH, draw_charts, draw_compared, height_of, panels_of

    if compared := app_context.shown.app.screen.query(ComparisonChart):
        found = compared.first().found
        curves = [] if found is None else drawn_curves(found)
        if found is None or not curves:
            app_context.toast("no curves are shown here: F12 saves the whole screen")
            return
        over: Over = "run time" if found.by == "time" else "timesteps"
        said = f"{metric_title(found.metric)} of {len(runs)} runs"
        size = WIDTH, height_of(1)
        await _save(app_context, "compare", size, GROUND, lambda it: draw_compared(it, said, curves, over))
        return
    shown = app_context.shown.query(Curves)
    panels = panels_of(shown.first().contents) if shown and shown.first().display else []
    if not panels:
        app_context.toast("no chart is shown here: Enter opens that of a run, F12 saves the whole screen")
        return
    name = runs[0].name if runs else ""
    size = (WIDTH, height_of(len(panels)))
    await _save(app_context, f"chart-{name}", size, GROUND, lambda surface: draw_charts(surface, name, panels))


async def _save(app_context: AppContext, stem: str, size: tuple[float, float], ground: str, draw: Draw) -> None:
    """Save the files side by side, under a name that is free. Raises `MissionError` where that cannot be."""
    if os.environ.get(SERVED):
        # Whoever looks from a browser would fill a folder of the machine that serves the screen.
        app_context.toast("this screen is read-only and saves no pictures: take one of the browser's window")
        return
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.")[:60]
    base = Path(app_context.origin["cwd"]) / f"mission-tui-{slug}-{time.strftime('%Y%m%d-%H%M%S')}"
    said = await asyncio.to_thread(_write, base, size, ground, draw)
    app_context.toast(f"saved {said} in {home_relative(str(base.parent), app_context.home)}")


def _write(base: Path, size: tuple[float, float], ground: str, draw: Draw) -> str:
    from mission_tui.tui.plot.picture_file import PngSurface, SvgSurface, fonts_folder, write_fresh

    drawing = SvgSurface(*size, ground)
    draw(drawing)
    svg = base.with_name(f"{base.name}.svg")
    write_fresh(svg, drawing.data())
    fonts = fonts_folder()
    if fonts is None:
        return f"{svg.name} (a PNG too needs the extra `report`)"
    pixels = PngSurface(*size, ground, fonts)
    draw(pixels)
    write_fresh(base.with_name(f"{base.name}.png"), pixels.data())
    return f"{svg.name} and .png"


_HELP = "A time of day such as 03:12, the last one before now; or with its date: 2026-11-21T03:12. Local time."
_LABEL = 28


async def compare(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Open the comparison, or say why there is none."""
    if app_context.snapshot is not None and app_context.snapshot.replay is not None:
        app_context.toast("runs are compared as they are now: H goes back to now, then c")
        return
    # Statistics and curves are needed here alone.
    from mission_tui.fleet.comparison import MOST
    from mission_tui.tui.screens.compare import CompareScreen

    known = app_context.snapshot.runs if app_context.snapshot else ()
    if len(runs) == 1:
        runs = launched_with(runs[0], known)
    runs = tuple(view for view in runs if not is_driver(view.preset))
    if len(runs) < 2:
        before = [view for view in known if runs and _age(view) < _age(runs[0]) and not is_driver(view.preset)]
        if not before:
            app_context.toast("nothing to compare it with: Space marks runs, c compares the marked ones")
            return
        runs = (max(before, key=_age), runs[0])
    if len(runs) > MOST:
        app_context.toast(f"{len(runs)} runs are meant, and {MOST} are the most that can be told apart", "warning")
        return
    # The others are compared with the first, which is the oldest.
    app_context.open(CompareScreen(app_context, tuple(sorted(runs, key=_age))))


def _age(view: RunView) -> tuple[float, str]:
    return view.created_t, view.id


async def away(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Show it run by run, also after the lines below the meters were closed; then all messages of this screen."""
    back, told = app_context.coming_back, tuple(app_context.messages)
    if back.away is None and not told:
        app_context.toast("nothing happened while you were away")
        return
    await app_context.ask_user(AwayScreen(back.away, back.best, told))


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
    """Evaluate the first of `runs`; leaving the screen lets it go on, and its result then comes as a toast. An episode
    that is chosen from its reel plays in the tab `watch`.
    """
    view = runs[0]
    if view.last_checkpoint is None:
        if view.state in OVER:
            app_context.toast(f"{view.name} has no checkpoint to evaluate: nothing was saved")
        elif why := objection("checkpoint", view):
            app_context.toast(f"{view.name} has no checkpoint to evaluate yet: {why}")
        else:
            app_context.toast(f"{view.name} has no checkpoint to evaluate yet; C saves one")
        return
    if (chosen := await app_context.ask_user(EvaluationScreen(app_context, view))) is not None:
        app_context.open_run(view, "watch", (chosen.checkpoint, chosen.seed))


async def help_(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Open the help of the present screen."""
    app_context.open(HelpScreen(app_context.place, app_context.presets, readonly=app_context.readonly))


async def refresh(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Read all of it again. In a replay there is nothing that could have changed."""
    if app_context.snapshot is not None and app_context.snapshot.replay is not None:
        app_context.toast("a replay does not change by itself: , and . move through time, H goes back to now")
        return
    app_context.wake()
    await app_context.read_presets()
    reply = await app_context.ask(lambda id_: GetSnapshot(id=id_))
    app_context.arrived(reply.snapshot)
    app_context.toast("refreshed", seconds=2.0)
    if app_context.readonly:
        return  # which packages were upgraded is for whoever resumes those runs
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
    rings = "stays quiet; toasts still show critical findings" if app_context.alarm.muted else "rings again"
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
        app_context.toast("nothing to resize here: detail, chart, finding and strip can be larger or smaller")
    elif not app_context.shares.step(split, by):
        app_context.toast("that is as far as it goes", seconds=2.0)
    else:
        app_context.redraw()


async def replay(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Leave the present for ten minutes ago; leave a replay for the present."""
    snapshot, one = app_context.snapshot, app_context.shown.chosen()
    if snapshot is None:
        app_context.toast("there is nothing to replay yet")
    elif snapshot.hosts:
        name = snapshot.hosts[0].name if one is None else one.host
        app_context.toast(f"a replay is of one machine: leave with q, then mission-tui --host {name} replay", "warning")
    else:
        app_context.switch_root(snapshot.runs_root, snapshot.t - BACK_S if snapshot.replay is None else None)


async def back(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """One step back."""
    if _replaying(app_context):
        app_context.replay_seek.move(-1)


async def forward(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """One step forward."""
    if _replaying(app_context):
        app_context.replay_seek.move(1)


async def finer(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Smaller steps."""
    if _replaying(app_context):
        app_context.replay_seek.turn(-1)
        app_context.redraw()


async def coarser(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Larger steps."""
    if _replaying(app_context):
        app_context.replay_seek.turn(1)
        app_context.redraw()


async def go_to(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Go to a moment that is typed."""
    if _replaying(app_context):

        async def there(word: str) -> None:
            if app_context.snapshot is not None and app_context.snapshot.replay is not None:
                app_context.replay_seek.seek(parse_moment(word, app_context.snapshot.replay.until))

        await ask_line(app_context, "Go to", _HELP, "goes there", "03:12", there)


def _replaying(app_context: AppContext) -> bool:
    """Whether this is a replay; says how to come to one where it is none."""
    if app_context.snapshot is not None and app_context.snapshot.replay is not None:
        return True
    app_context.toast("this is the present: H shows the fleet ten minutes ago, where , and . move through time")
    return False


async def elsewhere(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Go there at once if there is one, else let the person choose."""
    if app_context.snapshot is not None and app_context.snapshot.hosts:
        app_context.toast("this screen shows machines; leave with q, then mission-tui --runs-dir DIR opens a runs root")
        return
    roots = app_context.snapshot.elsewhere if app_context.snapshot else ()
    if not roots:
        app_context.toast("no other runs root of yours has a supervisor; mission-tui --runs-dir DIR opens one")
        return
    choices = []
    for other in sorted(roots, key=lambda other: -(other.live or 0)):
        path = home_relative(other.root, app_context.home)
        choices.append(Choice(other.root, _short(path), f"{other.remark.strip()}  {path}".strip()))
    if len(choices) == 1:
        app_context.switch_root(choices[0].value)
    elif (taken := await app_context.ask_user(Picker("Go to", choices, typed=True))) is not None:
        app_context.switch_root(taken)


def _short(root: str) -> str:
    """The end of a path says most."""
    return root if len(root) <= _LABEL else f"…{root[1 - _LABEL :]}"


async def shell(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Lend the terminal to the person's shell. Raises `UsageError` where the folder is not on this machine."""
    folder = runs[0].run_dir
    if app_context.is_away(runs[0].host):
        raise UsageError(f"the folder of {runs[0].name} is on {runs[0].host}: ssh there, then cd {folder}")
    if not await asyncio.to_thread(os.path.isdir, folder):
        raise UsageError(f"{folder} is not a folder on this machine")
    app_context.suspend(lambda: subprocess.run([os.environ.get("SHELL") or "/bin/sh"], cwd=folder, check=False))


async def suspend(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Stop this process, if there is a shell with job control that can let it go on again."""
    parent = os.getppid()
    try:
        shell = os.getsid(parent) == os.getsid(0) and os.getpgid(parent) != os.getpgrp()
    except ProcessLookupError:
        shell = False
    if shell:
        app_context.suspend()
    else:
        app_context.toast("no shell could bring this screen back: q leaves, and all runs go on")


VERBS: Mapping[str, Verb] = {
    "compare": compare,
    "screenshot": screenshot,
    "chart picture": chart,
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
    "replay": replay,
    "back in time": back,
    "forward in time": forward,
    "finer": finer,
    "coarser": coarser,
    "go to": go_to,
    "elsewhere": elsewhere,
    "shell": shell,
    "suspend": suspend,
}
