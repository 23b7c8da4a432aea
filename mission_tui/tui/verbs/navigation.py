"""Away and back: a replay (`H`) and its moments, another runs root (`W`), a shell in the run's folder (`!`), Ctrl-Z."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping
from functools import partial

from mission_tui.errors import UsageError
from mission_tui.fleet.time_words import BACK_S, parse_moment
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.drawing.strips import home_relative
from mission_tui.tui.screens.picker import Picker
from mission_tui.tui.screens.questions import LineInputScreen, typed
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.verbs.orders import Verb
from mission_tui.tui.widgets.choices import Choice

_HELP = "A time of day such as 03:12, the last one before now; or with its date: 2026-11-21T03:12. Local time."
_LABEL = 28


async def replay(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Leave the present for ten minutes ago; leave a replay for the present."""
    snapshot = app_context.snapshot
    if snapshot is None:
        app_context.toast("nothing is known yet that could be replayed")
    else:
        app_context.switch_root(snapshot.runs_root, snapshot.t - BACK_S if snapshot.replay is None else None)


async def back(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """One step back."""
    if _replaying(app_context):
        await app_context.replay_seek.move(-1)


async def forward(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """One step forward."""
    if _replaying(app_context):
        await app_context.replay_seek.move(1)


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
                await app_context.replay_seek.seek(parse_moment(word, app_context.snapshot.replay.until))

        await typed(app_context, partial(LineInputScreen, "Go to", _HELP, "goes there", "03:12"), there)


def _replaying(app_context: AppContext) -> bool:
    """Whether this is a replay; says how to come to one where it is none."""
    if app_context.snapshot is not None and app_context.snapshot.replay is not None:
        return True
    app_context.toast("this is now: H shows the fleet as it was ten minutes ago, and then , and . move through time")
    return False


async def elsewhere(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Go there at once if there is one, else let the person choose."""
    roots = app_context.snapshot.elsewhere if app_context.snapshot else ()
    if not roots:
        app_context.toast("no other runs root of yours is live; mission-tui --runs-dir DIR opens one")
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
    if not await asyncio.to_thread(os.path.isdir, folder):
        raise UsageError(f"{folder} is not a folder of this machine")
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
        app_context.toast("no shell started this screen that could bring it back: q leaves, and all runs go on")


VERBS: Mapping[str, Verb] = {
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
