"""The form for a run with changes: preset, `key=value` lines, name and number, and what they mean while one types."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.strip import Strip
from textual.widgets import Input, Static, TextArea

from mission_tui.errors import MissionError
from mission_tui.ipc.requests import LaunchItem
from mission_tui.tui import colours
from mission_tui.tui.desk import Desk
from mission_tui.tui.draft import assignments, meaning
from mission_tui.tui.preset_choice import PresetChoice
from mission_tui.tui.screens.picker import Choice, Choices
from mission_tui.tui.screens.sheet import Sheet
from mission_tui.tui.screens.smoke import SmokeScreen
from mission_tui.tui.strips import line
from mission_tui.tui.verbs.launch import plan
from mission_tui.tui.widgets.scroll_lines import ScrollLines
from mission_tui.tui.wrapping import wrap

__all__ = ["LaunchForm"]

_MOST_COPIES = 64
_HINT = "Ctrl-S or Enter starts   Ctrl-T tries   ↑ ↓ preset   Tab next   Esc back"


class LaunchForm(Sheet[tuple[LaunchItem, ...]]):
    """Dismissed with the items to launch; as long as something is wrong it says what, and cannot be submitted."""

    CSS_PATH: ClassVar = ["sheet.tcss", "launch_form.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "submit", "start", priority=True),
        Binding("ctrl+t", "try", "try", priority=True),
        Binding("escape", "turn_away", "back", priority=True),
        Binding("tab", "app.focus_next", "next field", priority=True),
        Binding("shift+tab", "app.focus_previous", "previous field", priority=True),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__("New run", _HINT)
        self._desk = desk
        self._presets = [preset for preset in desk.presets if preset.error is None]
        self._items: tuple[LaunchItem, ...] = ()
        self._trouble: str | None = None
        self._typed = 0

    def content(self) -> ComposeResult:
        """Presets at the left, changes at the right, then name and number, then the meaning."""
        with Horizontal(id="form"):
            with Vertical(id="form-left"):
                yield Static("preset", classes="form-label", markup=False)
                yield Presets([Choice(preset.name, preset.name) for preset in self._presets])
            with Vertical(id="form-right"):
                yield Static("changes, one key=value a line", classes="form-label", markup=False)
                yield TextArea(
                    id="form-changes", compact=True, tab_behavior="focus", placeholder="ppo.n_steps=512\nrun.seed=1,2,3"
                )
        with Horizontal(id="form-names"):
            yield Static("name", classes="form-label", markup=False)
            yield Input(id="form-name", compact=True, placeholder="from preset and id", max_length=60)
            yield Static("runs of each", classes="form-label", markup=False)
            yield Input("1", id="form-copies", compact=True, type="integer", max_length=2)
        yield ScrollLines(self.lines, id="sheet-lines")

    def on_mount(self) -> None:
        """Begin at the presets."""
        self.query_one(Presets).focus()
        self._check()

    @property
    def _preset(self) -> PresetChoice | None:
        current = self.query_one(Presets).current
        return next((preset for preset in self._presets if current and preset.name == current.value), None)

    @on(TextArea.Changed)
    @on(Input.Changed)
    def _check(self) -> None:
        self._typed += 1
        self._desk.start(self._resolve(self._typed))

    async def _resolve(self, typed: int) -> None:
        """Resolve what is typed now; what was typed meanwhile makes this answer worthless."""
        preset, copies = self._preset, self.query_one("#form-copies", Input).value
        items: tuple[LaunchItem, ...] = ()
        trouble = None
        if preset is None:
            trouble = "there is no preset that can be used"
        elif not copies.isdigit() or not 1 <= int(copies) <= _MOST_COPIES:
            trouble = f"runs of each: a number from 1 to {_MOST_COPIES}"
        else:
            words = assignments(self.query_one(TextArea).text)
            name = self.query_one("#form-name", Input).value.strip() or None
            try:
                items = await plan(self._desk, preset, words, name, int(copies))
            except MissionError as error:
                trouble = str(error)
        if typed == self._typed and self.is_attached:
            self._items, self._trouble = items, trouble
            self.refill()

    def lines(self, width: int) -> list[Strip]:
        """What is wrong, or the numbers that will run."""
        if self._trouble is not None:
            said = [(text, colours.ALARM) for text in wrap(f"✗ {self._trouble}", width)]
        elif not self._items:
            said = [("checking…", colours.QUIET)]
        else:
            about = self._preset.description if self._preset else ""
            said = [(text, colours.QUIET) for text in wrap(about, width)]
            said += [(text, colours.INK) for sentence in meaning(self._items) for text in wrap(sentence, width)]
        return [line([part], width) for part in said]

    @on(Input.Submitted)
    def action_submit(self) -> None:
        """Start, if nothing is wrong."""
        if self._items and self._trouble is None:
            self.dismiss(self._items)

    def action_try(self) -> None:
        """A smoke run of the first of the items: what stands here stays."""
        if self._items and self._trouble is None:
            self._desk.open(SmokeScreen(self._desk, self._items[0]))

    def on_presets_chosen(self) -> None:
        """Another preset means other numbers."""
        self._check()

    def on_presets_submitted(self) -> None:
        """Enter in the list starts."""
        self.action_submit()


class Presets(Choices, can_focus=True):
    """The list of presets, moved through with the arrows while it has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "turn(-1)", "up"),
        Binding("down,j", "turn(1)", "down"),
        Binding("enter", "submit", "start"),
    ]

    class Chosen(Choices.Taken):
        """The cursor is on another preset."""

    class Submitted(Choices.Taken):
        """Enter was pressed on it."""

    def __init__(self, choices: list[Choice]) -> None:
        super().__init__(choices, id="form-presets")

    @property
    def lit(self) -> bool:
        """The highlight shows where keys go."""
        return self.has_focus

    def on_focus(self) -> None:
        """Light up."""
        self.call_later(self.redraw)

    def on_blur(self) -> None:
        """Keys go elsewhere; the focus is only gone after this event."""
        self.call_later(self.redraw)

    def action_turn(self, by: int) -> None:
        """Move the cursor."""
        self.step(by)
        if self.current is not None:
            self.post_message(self.Chosen(self.current.value))

    def action_submit(self) -> None:
        """Start."""
        if self.current is not None:
            self.post_message(self.Submitted(self.current.value))
