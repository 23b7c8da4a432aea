"""Ways over the screen: a key of the table with what it opens, and the tour on which every part of it is seen."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable

from msgspec import structs
from textual.events import Paste

from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.fleet.views.snapshot import MachineView
from mission_tui.tui.screens.launch_form import LaunchForm, MachinePicker
from mission_tui.tui.screens.sheets import ErrorScreen, OutputScreen
from mission_tui.tui.screens.snapshot_screen import SnapshotScreen
from mission_tui.tui.widgets.form_fields import CompletionLine, Field
from tests.faults.hostile.supervisor import BEGUN, Text
from tests.faults.hostile.texts import MARK
from tests.supervisor.conftest import stub_spec
from tests.tui.stage import Stage

__all__ = [
    "REPLAY",
    "SHOWN_MISHAP",
    "TOUR",
    "Seen",
    "ask_where",
    "home",
    "paste",
    "show_mishap",
    "through_command",
    "through_form",
]

Seen = Callable[[str], None]
"""Looks at the picture, after what was done."""

TOUR: tuple[str, ...] = (
    # The fleet: list and panes, detail with its tabs, filter, strip, marks, sheets over it.
    "escape", "v", "]", "home", "down", "down", "down", "down", "down", "[", "~", "home", "down", "v", "tab", "]", "]",
    "]", "]", "]", "]", "escape", "slash", "escape", "f", "{", "}", "space", "down", "space", "c", "t", "escape",
    "escape", "home", "M", "escape", "x", "escape", "colon", "down", "escape", "question_mark", "escape", "K", "escape",
    "X", "escape", "e", "escape", "T", "escape", "V", "escape", "!S", "!x", "!enter", "~", "down", "escape",
    "m", "down", "m",
    # A run: chart of several metrics with a crosshair, every tab, the config against preset and another run, the log.
    "home", "enter", "~", "end", "space", "home", "down", "space", "~", "Y", "}", "tab", "left", "left", "escape",
    "d", "v", "~", "!v", "~", "!down", "!enter", "~", "v", "]", "~", "h", "~", "down", "w", "~",
    "l", "v", "slash", "escape", "o", "J", "right_square_bracket", "right_square_bracket",
    "right_square_bracket", "z", "z", "escape",
)  # fmt: skip
"""Keys from the fleet back to the fleet; `!`: nothing is pasted into what one opens; `~`: answers are waited for."""

REPLAY: tuple[str, ...] = (
    "comma", "full_stop", "left_parenthesis", "right_parenthesis", "g", "escape", "enter", "comma", "escape"
)  # fmt: skip
"""Keys of a replay."""
SHOWN_MISHAP = "an error of the screen that was made on purpose"

FIELDS = 9
LOOK_S, LOOKS = 0.05, 1200
"""Of a program that is started on a busy machine; what has not come by then is missed by its name."""


async def paste(stage: Stage, text: Text) -> None:
    """Foreign text into the line that is typed into."""
    if stage.app.focused is not None:
        stage.app.focused.post_message(Paste(text()))
        await stage.pilot.pause()


async def home(stage: Stage) -> None:
    """Back to a screen of runs."""
    for _ in range(6):
        if isinstance(stage.screen, SnapshotScreen) and stage.app.focused is None:
            return
        await stage.press("escape")


async def through_form(stage: Stage, text: Text, seen: Seen) -> None:
    """The launch form as it is found: its price, a smoke run; then foreign text in all its fields, and an offer."""
    await stage.press("n")
    if not isinstance(stage.screen, LaunchForm):
        return
    form = stage.screen
    await stage.press("ctrl+t")
    for _ in range(LOOKS):
        if stage.screen is not form:
            break
        await asyncio.sleep(LOOK_S)
        await stage.press("ctrl+t")
    await stage.pilot.pause()
    seen("trying it")
    if stage.screen is not form:
        await stage.press("escape")
    for at in range(FIELDS):
        await stage.press("tab")
        field = stage.app.focused
        if field is not None:
            field.post_message(Paste(BEGUN if field.id == "form-after" else text()))
            await stage.pilot.pause()
            if isinstance(field, Field) and field.value == BEGUN:
                await _until(lambda: form.query_one(CompletionLine).chosen is not None)
            await stage.press("down")
            seen(f"pasting into field {at}")
    await home(stage)


async def through_command(stage: Stage, text: Text, seen: Seen) -> None:
    """A line of the command line that is no verb, and what the program says to it."""
    before = stage.app.app_context.snapshot
    assert before is not None
    root = _givable(before.runs_root)
    await stage.arrive(structs.replace(before, runs_root=root, revision=before.revision + 1))
    await stage.press(";")
    field = stage.app.focused
    assert field is not None
    # Another line would not be pasted.
    word = _givable((MARK + text()).splitlines()[0])
    field.post_message(Paste(f"no-verb {shlex.quote(word)}"))
    await stage.press("enter")
    seen("a command")
    await _until(lambda: isinstance(stage.screen, OutputScreen) and bool(stage.screen._text))
    assert getattr(stage.screen, "_text", ""), "the command says nothing"
    await stage.pilot.pause()
    seen("what a command says")
    await home(stage)


def _givable(text: str) -> str:
    """What of it a program can be given: with the rest none is started, which another test shows."""
    return text.replace("\0", "").encode(errors="ignore").decode()


async def _until(true: Callable[[], bool]) -> None:
    for _ in range(LOOKS):
        if true():
            return
        await asyncio.sleep(LOOK_S)


async def ask_where(stage: Stage, text: Text, seen: Seen) -> None:
    """A list of two machines with foreign names, and the question on which of them a launch is to begin."""
    item = LaunchItem(spec=structs.replace(stub_spec(), preset=text()))
    machines = tuple(MachineView(name=text(), why=text(), launches=True) for _ in range(2))
    alone = stage.app.app_context.snapshot
    assert alone is not None
    runs = tuple(structs.replace(view, host=machines[at % 2].name) for at, view in enumerate(alone.runs))
    await stage.arrive(structs.replace(alone, hosts=machines, runs=runs, revision=alone.revision + 1))
    seen("runs of several machines")
    stage.app.push_screen(MachinePicker(stage.app.app_context, (item,), machines))
    await stage.pilot.pause()
    seen("the question where to launch")
    await stage.press("down")
    await stage.press("escape")


async def show_mishap(stage: Stage, text: Text, seen: Seen) -> None:
    """An error of the screen whose words are foreign."""
    stage.app.push_screen(ErrorScreen(ValueError(text())))
    await stage.pilot.pause()
    seen(SHOWN_MISHAP)
    await stage.press("escape")
