"""Around the launch form: Ctrl-T tries what stands there for a few updates, Ctrl-O saves it as a preset of one's own;
and where a launch is to begin, on a screen of several machines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from rich.style import Style
from textual.strip import Strip

from mission_tui.errors import MissionError
from mission_tui.fleet.specs.checking import CheckFigures, CheckStep
from mission_tui.fleet.specs.preset_file import Saving
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.fleet.views.snapshot import Machine
from mission_tui.ipc.replies import Checked, Progress
from mission_tui.ipc.requests import Check
from mission_tui.present import numbers
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line, wrap
from mission_tui.tui.screens.picker import Picker
from mission_tui.tui.screens.questions import ConfirmScreen, ask_line
from mission_tui.tui.screens.sheet import Sheet, still_open
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.launch_preview import BEST, MachinePrices
from mission_tui.tui.state.presets import PresetChoice
from mission_tui.tui.widgets.choices import Choice, Choices

LONGEST_STEP_S = 120.0
_MARKS: dict[str, tuple[str, Style]] = {
    "ok": ("✓", colours.GOOD),
    "note": ("▲", colours.WARN),
    "failed": ("✗", colours.ALARM),
    "skipped": ("-", colours.QUIET),
}
_NAME = 12
_HELP = (
    "Its name, and after a space the digit that is to launch it, if any. It goes into your own folder of presets, with "
    "the settings as they stand in the form; name, group and number of runs are not part of a preset."
)


class SmokeScreen(Sheet[None]):
    """Closing it does not end the smoke run, which soon ends by itself and leaves nothing; how it went is then told."""

    def __init__(self, app_context: AppContext, item: LaunchItem, machine: str) -> None:
        there = f" on {machine}" if machine else ""
        super().__init__(f"Trying {item.spec.preset}{there}: nothing is started", "Esc back; it goes on for a moment")
        self._app_context, self._item, self._machine = app_context, item, machine
        self._doing = "asking"
        self._checked: Checked | None = None
        self._trouble: str | None = None

    def on_mount(self) -> None:
        """Begin."""
        self._app_context.start(self._try())

    async def _try(self) -> None:
        origin, spec = self._app_context.origin, self._item.spec

        def request(id_: int) -> Check:
            return Check(
                id=id_,
                spec=spec,
                **origin,
                limit_s=LONGEST_STEP_S,
            )

        try:
            async for reply in self._app_context.stream(request, self._machine):
                if isinstance(reply, Progress):
                    self._doing = reply.note
                else:
                    self._checked = reply
                if still_open(self):
                    self.refill()
        except MissionError as error:
            self._trouble = str(error)
        if still_open(self):
            self.hint("Esc back to the form")
            self.refill()
        else:
            self._app_context.toast(
                f"{spec.preset}: {self._sentence()}", "warning" if self._failed() else "information"
            )

    def lines(self, width: int) -> list[Strip]:
        """What is being done, or every step with what was found."""
        if self._trouble is not None:
            return [line([(text, colours.ALARM)], width) for text in wrap(self._trouble, width)]
        if self._checked is None:
            return [line([(text, colours.QUIET)], width) for text in wrap(f"{self._doing}…", width)]
        rows = [strip for step in self._checked.steps for strip in _step(step, width)]
        if self._checked.figures is not None:
            for name, value in _figure_rows(self._checked.figures):
                rows.append(line([(f"  {name:<{_NAME}}", colours.QUIET), (value, colours.INK)], width))
        return rows

    def _failed(self) -> CheckStep | None:
        steps = self._checked.steps if self._checked is not None else ()
        return next((step for step in steps if step.level == "failed"), None)

    def _sentence(self) -> str:
        failed = self._failed()
        if failed is not None:
            return f"{failed.name} failed: {failed.detail}"
        return self._trouble or "tried, and it would run"


def _figure_rows(figures: CheckFigures) -> Iterator[tuple[str, str]]:
    """Memory, VRAM, speed and time, as name and value."""
    several = "s" if figures.n_workers > 1 else ""
    workers = f", {figures.n_workers} worker{several} included" if figures.n_workers else ""
    yield "memory", f"{numbers.size(figures.memory_bytes)}{workers}"
    if figures.vram_bytes is not None:
        yield "VRAM", f"{numbers.size(figures.vram_bytes)}, and the CUDA context"
    yield "speed", f"{numbers.rate(figures.steps_per_s)} steps/s under the present load"
    if figures.hours is not None:
        yield "time", f"{numbers.duration(figures.hours * 3600)} for the whole run"


def _step(step: CheckStep, width: int) -> list[Strip]:
    mark, style = _MARKS[step.level]
    ink = style if step.level == "failed" else colours.QUIET if step.level == "skipped" else colours.INK
    said = wrap(step.detail, max(10, width - _NAME - 2)) or [""]
    first = [(f"{mark} ", style), (f"{step.name:<{_NAME}}", ink), (said[0], ink)]
    return [line(first, width), *(line([(" " * (_NAME + 2), ink), (more, ink)], width) for more in said[1:])]


async def save_preset(app_context: AppContext, preset: PresetChoice, words: Sequence[str]) -> str | None:
    """Ask for the name, again where it can be none, and before anything is written over; the name of what was saved,
    None where nothing was.
    """
    names: list[str] = []

    async def save(said: str) -> None:
        name, _, key = said.partition(" ")
        saving = Saving(preset.ref or preset.name, name, tuple(words), key.strip() or None)
        saved = await asyncio.to_thread(app_context.save_preset, saving, False)
        if saved.there:
            question, facts = f"Save {name} anyway?", (f"{saved.there}.",)
            if not await app_context.ask_user(ConfirmScreen(question, facts, "save it")):
                return
            saved = await asyncio.to_thread(app_context.save_preset, saving, True)
        await app_context.read_presets()
        app_context.toast(f"{saved.name} is saved as {saved.path}")
        names.append(saved.name)

    await ask_line(app_context, f"Save {preset.name} with these changes", _HELP, "saves it", "calm 5", save)
    return names[0] if names else None


class MachinePicker(Picker):
    """Dismissed with the name of a machine, or None. The cursor begins at the machine of the last launch."""

    def __init__(self, app_context: AppContext, items: tuple[LaunchItem, ...], machines: tuple[Machine, ...]) -> None:
        self._app_context, self._items, self._machines = app_context, items, machines
        self._prices = MachinePrices(app_context, self._priced)
        what = items[0].spec.preset if len({item.spec.preset for item in items}) == 1 else f"{len(items)} runs"
        super().__init__(f"Start {what} where?", self._choices_now(), typed=False)

    def on_mount(self) -> None:
        """Ask each machine for its price."""
        super().on_mount()
        names = [choice.value for choice in self._choices]
        if self._app_context.launches_at in names:
            self.action_step(names.index(self._app_context.launches_at))
        self._prices.request(self._items)

    def on_unmount(self) -> None:
        """Drop the prices that are still awaited."""
        self._prices.drop()

    def take(self, value: str) -> None:
        """A machine; `best` only once all have said their price."""
        found = value if value != BEST else self._prices.best if self._prices.complete else None
        if found is None:
            self._app_context.toast("which is best is not known before all have said their price")
        else:
            self._app_context.launches_at = value
            self.dismiss(found)

    def _choices_now(self) -> list[Choice]:
        shown = [
            Choice(one.name, one.name, self._prices.word(one.name), str(at) if at < 10 else "")
            for at, one in enumerate(self._machines, start=1)
        ]
        return [*shown, Choice(BEST, BEST, self._prices.word(BEST), "b")]

    def _priced(self) -> None:
        if still_open(self):
            choices = self.query_one(Choices)
            at, self._choices = choices.at, self._choices_now()
            choices.offer(self._choices)
            choices.step(at)
            self._show_chosen()
