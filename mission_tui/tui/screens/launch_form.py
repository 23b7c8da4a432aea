"""The form for a run with changes: preset, `key=value` lines, who, how many and where, and what that means and costs.
Ctrl-T tries what stands there for a few updates, Ctrl-O saves it as a preset of one's own.

All of it is answered while one types, and nothing starts as long as something is wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.strip import Strip
from textual.widgets import Input, Static, TextArea

from mission_tui.errors import MissionError
from mission_tui.fleet.specs.preset import Saving
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.fleet.views.snapshot import FleetSnapshot, MachineView, of_machine
from mission_tui.ipc.replies import Checked, CheckFigures, CheckStep, Progress
from mission_tui.ipc.requests import Check
from mission_tui.present import numbers
from mission_tui.tui.actions import Move
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line, whole_hints, wrap
from mission_tui.tui.screens.questions import Choice, Choices, ConfirmScreen, Picker, ask_line
from mission_tui.tui.screens.sheets import Sheet, still_open
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.launch_draft import Draft, DraftedLaunch, draft_of, kept_words
from mission_tui.tui.state.launch_preview import BEST, LaunchPreview, MachinePrices, machines_of
from mission_tui.tui.state.presets import PresetChoice
from mission_tui.tui.widgets.form_fields import (
    Changes,
    CompletionLine,
    DrawnField,
    Field,
    Selector,
    TakesTab,
    about,
    devices,
    offers,
)
from mission_tui.tui.widgets.lines import ScrollLines

LONGEST_STEP_S = 120.0
_MARKS: dict[str, tuple[str, Style]] = {
    "ok": ("✓", colours.GOOD),
    "note": ("▲", colours.WARN),
    "failed": ("✗", colours.ALARM),
    "skipped": ("-", colours.QUIET),
}
_LABEL_WIDTH = 12
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
                rows.append(line([(f"  {name:<{_LABEL_WIDTH}}", colours.QUIET), (value, colours.INK)], width))
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
    said = wrap(step.detail, max(10, width - _LABEL_WIDTH - 2)) or [""]
    first = [(f"{mark} ", style), (f"{step.name:<{_LABEL_WIDTH}}", ink), (said[0], ink)]
    return [line(first, width), *(line([(" " * (_LABEL_WIDTH + 2), ink), (more, ink)], width) for more in said[1:])]


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

    def __init__(
        self, app_context: AppContext, items: tuple[LaunchItem, ...], machines: tuple[MachineView, ...]
    ) -> None:
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


_HINT = "Ctrl-S start  Ctrl-T try  Ctrl-O save  Tab next  Esc back"
_HINT_KEPT = "Ctrl-S start  Ctrl-T try  Ctrl-O save  Ctrl-N empty  Esc back"
_ONE_ROW, _WIDE = 78, 110
_AGAIN_S = 5.0
_NAME = r"[A-Za-z0-9._-]*"


class Presets(DrawnField, Choices, can_focus=True):
    """The list of presets, moved through with the arrows, or by typing a part of a name, while it has the focus.

    `sought` is what was typed: letters that no preset has are not taken.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "turn(-1)", "up"),
        Binding("down", "turn(1)", "down"),
    ]

    class Chosen(Choices.Taken):
        """The cursor is on another preset."""

    def __init__(self, form: TakesTab, choices: list[Choice]) -> None:
        super().__init__(choices, id="form-presets")
        self._form = form
        self.sought = ""

    def on_key(self, event: events.Key) -> None:
        """Letters search. Enter leads on to the changes: it ends a search and is pressed without a look, so that it
        starts nothing.
        """
        super().on_key(event)
        if self.screen.focused is not self:
            return  # the key went on to the field that is, or to none
        if event.key == "enter":
            event.stop().prevent_default()
            self._form.action_next()
        elif event.key == "backspace":
            self._seek(self.sought[:-1])
        elif event.is_printable and event.character is not None:
            event.stop()
            self._seek(self.sought + event.character.lower())

    def on_blur(self) -> None:
        """What was typed is forgotten where keys go elsewhere."""
        self.sought = ""
        super().on_blur()

    def _seek(self, words: str) -> None:
        """Go to the preset that is called `words`, else to one that begins with them, else to one that has them."""
        named = [choice for choice in self.choices if choice.value.lower() == words]
        named += [choice for choice in self.choices if choice.value.lower().startswith(words)]
        named += [choice for choice in self.choices if words in f"{choice.label} {choice.detail}".lower()]
        if named:
            self.sought = words
            self.go_to(named[0].value)

    @property
    def is_highlighted(self) -> bool:
        """The highlight shows where keys go."""
        return self.has_focus

    def go_to(self, value: str) -> None:
        """Put the cursor on the choice of this value, if there is one."""
        at = next((at for at, choice in enumerate(self.choices) if choice.value == value), None)
        if at is not None:
            self.step(at - self.at)
            self.post_message(self.Chosen(value))

    def on_choices_taken(self, message: Choices.Taken) -> None:
        """A click chooses; it does not start."""
        if type(message) is Choices.Taken:
            message.stop()
            self.go_to(message.value)

    def action_turn(self, by: int) -> None:
        """Move the cursor."""
        self.sought = ""
        self.step(by)
        if self.current is not None:
            self.post_message(self.Chosen(self.current.value))

    def wheel(self, by: int) -> None:
        """The wheel moves the cursor."""
        self.action_turn(by)


class LaunchForm(Sheet[DraftedLaunch]):
    """Dismissed with the items to launch and the machine; as long as something is wrong it says what, and cannot be
    submitted.

    What was typed is kept until it was launched or emptied, so that no key throws it away: the next form begins so.
    """

    CSS_PATH: ClassVar = ["sheet.tcss", "launch_form.tcss"]
    SCROLLS: ClassVar[str] = ""  # its arrows are those of its fields
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [  # noqa: RUF012 - as Textual
        (0, "-narrow"),
        (_ONE_ROW, "-medium"),
        (_WIDE, "-wide"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        # Without priority they come through the field, after what was typed before them.
        Binding("ctrl+s", "submit", "start"),
        Binding("ctrl+t", "try", "try"),
        Binding("ctrl+o", "save", "save as preset"),
        Binding("ctrl+n", "empty", "empty every field"),
        Binding("tab", "next", "complete, or next field"),
        Binding("shift+tab", "app.focus_previous", "previous field"),
        Binding("down", "other(1)", "another offer"),
        Binding("up", "other(-1)", "the offer before"),
        Binding("escape", "turn_away", "back", priority=True),
        Binding("pagedown", "scroll_to('page_down')", "more", priority=True),
        Binding("pageup", "scroll_to('page_up')", "less", priority=True),
    ]

    def __init__(self, app_context: AppContext, chosen: str | None = None) -> None:
        kept = app_context.kept_form if chosen is None else None
        if kept and app_context.presets and kept.get("preset") not in {it.name for it in _usable(app_context)}:
            kept = None  # it was left in another folder, whose presets are others
        self._keys = _HINT_KEPT if kept else _HINT
        super().__init__("New run, as you left it" if kept else "New run", self._keys)
        self._chosen = kept.get("preset") if kept else chosen
        self._begun = draft_of(kept) if kept else Draft()
        self._app_context = app_context
        self._presets = _usable(app_context)
        self._preview = LaunchPreview(app_context, self._preview_changed)

    def content(self) -> ComposeResult:
        """Presets beside changes, what may be completed, the other fields, then meaning and price."""
        with Horizontal(id="form"):
            with Vertical(id="form-left"):
                yield Static("preset", classes="form-label", markup=False)
                yield Presets(self, _choices(self._presets))
            with Vertical(id="form-right"):
                yield Static("changes, one key=value a line", classes="form-label", markup=False)
                yield Changes(self, "such as env.n_envs=8\nor run.seed=1,2,3")
        yield CompletionLine()
        with Horizontal(classes="form-row"):
            yield Static("name", classes="form-label", markup=False)
            yield Field(self, id="form-name", placeholder="by preset", restrict=_NAME, max_length=60)
            yield Static("group", classes="form-label", markup=False)
            yield Field(self, id="form-group", placeholder="by itself", restrict=_NAME, max_length=60)
            yield Static("after", classes="form-label", markup=False)
            yield Field(self, id="form-after", placeholder="no other run", max_length=400)
        with Container(id="form-numbers"):
            with Horizontal(classes="form-row"):
                yield Static("runs of each", classes="form-label", markup=False)
                yield Field(self, "1", id="form-copies", max_length=2)
                yield Static("seeds", classes="form-label", markup=False)
                yield Field(self, id="form-seeds", placeholder="1", max_length=2)
                yield Static("from", classes="form-label", markup=False)
                yield Field(self, id="form-first-seed", placeholder="preset's", max_length=10)
            with Horizontal(classes="form-row"):
                yield Static("device", classes="form-label", markup=False)
                snapshot = self._app_context.snapshot
                yield Selector(self, "preset's", devices(snapshot.gpus if snapshot else ()), id="form-device")
                yield Static("priority", classes="form-label", markup=False)
                yield Field(self, id="form-priority", placeholder="0", max_length=5)
        if machines := machines_of(self._app_context):
            with Horizontal(classes="form-row"):
                yield Static("machine", classes="form-label", markup=False)
                first, *others = [machine.name for machine in machines]
                yield Selector(self, first, (*others, BEST), id="form-machine")
        yield ScrollLines(self.lines, id="sheet-lines")

    def on_mount(self) -> None:
        """Begin at the presets, with what was kept."""
        self.query_one(Presets).focus()
        if self._begun != Draft():
            self._fill(self._begun)
        self.watch(self, "focused", self._offer, init=False)
        self.set_interval(_AGAIN_S, self._preview.requote)
        if self._chosen is not None:
            self.query_one(Presets).go_to(self._chosen)
        self._check()
        if not self._app_context.presets:
            self._app_context.start(self._await_presets())
        elif not self._presets:
            self._list_presets(self._chosen)  # they were read while the form was made

    async def _await_presets(self) -> None:
        """The form may be open before they have been read."""
        await self._app_context.read_presets()
        if still_open(self):
            self._list_presets(self._chosen)

    def _list_presets(self, chosen: str | None) -> None:
        self._presets = _usable(self._app_context)
        presets = self.query_one(Presets)
        presets.offer(_choices(self._presets))
        presets.go_to(chosen or (self._presets[0].name if self._presets else ""))

    def on_unmount(self) -> None:
        """Drop the answers that are still awaited."""
        self._preview.close()

    @property
    def _preset(self) -> PresetChoice | None:
        current = self.query_one(Presets).current
        return next((preset for preset in self._presets if current and preset.name == current.value), None)

    def _draft(self) -> Draft:
        typed = {field.id or "": field.value for field in self.query(Field)}
        return Draft(
            changes=self.query_one(TextArea).text,
            copies=typed["form-copies"],
            seeds=typed["form-seeds"],
            first_seed=typed["form-first-seed"],
            device=self.query_one("#form-device", Selector).word,
            machine=self._machine,
            priority=typed["form-priority"],
            name=typed["form-name"],
            group=typed["form-group"],
            after=typed["form-after"],
        )

    @property
    def _machine(self) -> str | None:
        found = self.query("#form-machine")
        return found.first(Selector).word if found else None

    def _snapshot(self) -> FleetSnapshot | None:
        """That of the machine that is meant."""
        snapshot = self._app_context.snapshot
        return None if snapshot is None else of_machine(snapshot, self._preview.machine)

    @on(Selector.Turned)
    def _turned(self) -> None:
        snapshot = self._snapshot()
        self.query_one("#form-device", Selector).offer(devices(snapshot.gpus if snapshot else ()))

    @on(TextArea.Changed)
    @on(Input.Changed)
    @on(Selector.Turned)
    @on(Presets.Chosen)
    def _check(self) -> None:
        if self._preset is not None:
            self._keep()  # as it is typed: a line that drops takes the screen with it
        self._offer()
        self._preview.update(self._preset, self._draft())

    def _preview_changed(self) -> None:
        if still_open(self):
            self._offer()
            self.refill()

    def lines(self, width: int) -> list[Strip]:
        """What is wrong, or the numbers that will run and what they cost."""
        sentences = self._preview.sentences()
        preset = self._preset
        if preset is not None and preset.description and width < _WIDE:
            # Beside the keys of the list it has room only on a wide screen.
            sentences.insert(0, (preset.description, colours.QUIET))
        return [line([(text, style)], width) for sentence, style in sentences for text in wrap(sentence, width)]

    def refill(self) -> None:
        """The lines have changed; the hint says whether there are more than are seen."""
        super().refill()
        self._tell_more()

    def action_scroll_to(self, how: Move) -> None:
        """Scroll what stands below the fields."""
        super().action_scroll_to(how)
        self._tell_more()

    def _tell_more(self) -> None:
        lines = self.query_one("#sheet-lines", ScrollLines)
        more = f"  {'PgUp' if lines.at_end else 'PgDn'} more" if lines.place else ""
        self.hint(f"{self._keys}{more}")

    def _offer(self) -> None:
        field, snapshot = self.focused, self._snapshot()
        id_ = field.id or "" if field is not None else ""
        typed = field.typed if isinstance(field, Changes | Field) else ""
        word = field.word if isinstance(field, Selector) else None
        found = offers(id_, typed, self._preview.spec, snapshot)
        preset = self._preset

        def explanation(width: int) -> str:
            if isinstance(field, Presets) and preset is not None:
                return _about_preset(preset, field.sought, width)
            return about(id_, word, snapshot)

        self.query_one(CompletionLine).offer((id_, typed), found, explanation)

    @on(Input.Submitted)
    def action_submit(self) -> None:
        """Start, if nothing is wrong."""
        self._check()
        self._app_context.carry_out(self._preview.when_known(self._start))

    def _start(self, items: tuple[LaunchItem, ...]) -> None:
        self._keep()
        if machines_of(self._app_context) and not self._preview.machine:
            self._app_context.toast("which machine is best is not known before all have said their price")
            return
        self.dismiss(DraftedLaunch(items, self._preview.machine))

    def action_turn_away(self) -> None:
        """Back; what was typed comes again with the next form."""
        if self._keep():
            self._app_context.toast("the form is kept: n brings it back as it was", seconds=2.0)
        self.dismiss(None)

    def _keep(self) -> bool:
        draft, preset = self._draft(), self._preset
        self._app_context.kept_form = None if draft == Draft() or preset is None else kept_words(draft, preset.name)
        return self._app_context.kept_form is not None

    def action_empty(self) -> None:
        """Every field as it was at first."""
        self._app_context.kept_form = None
        self._fill(Draft())

    def _fill(self, draft: Draft) -> None:
        self.query_one(TextArea).text = draft.changes
        self.query_one("#form-device", Selector).turn_to(draft.device)
        for selector in self.query("#form-machine").results(Selector):
            selector.turn_to(draft.machine)
        values = {
            "form-copies": draft.copies, "form-seeds": draft.seeds, "form-first-seed": draft.first_seed,
            "form-priority": draft.priority, "form-name": draft.name, "form-group": draft.group,
            "form-after": draft.after,
        }  # fmt: skip
        for field in self.query(Field):
            field.value = values[field.id or ""]

    def action_try(self) -> None:
        """A smoke run of the first of the items: what stands here stays."""
        self._check()
        tried = self._preview.when_known(
            lambda items: self._app_context.open(SmokeScreen(self._app_context, items[0], self._preview.machine)),
            refused_too=True,
        )
        self._app_context.carry_out(tried)

    def action_save(self) -> None:
        """What stands here becomes a preset."""
        self._check()
        saved = self._preview.when_known(lambda _: self._app_context.carry_out(self._save()), refused_too=True)
        self._app_context.carry_out(saved)

    async def _save(self) -> None:
        preset = self._preset
        saved = None if preset is None else await save_preset(self._app_context, preset, self._preview.settings)
        if saved is None or not still_open(self):
            return
        draft = self._draft()
        self._fill(Draft(copies=draft.copies, name=draft.name, group=draft.group, after=draft.after))
        self._list_presets(saved)

    def action_next(self) -> None:
        """Take what is offered, or go on to the next field."""
        self._offer()
        field, offer = self.focused, self.query_one(CompletionLine).chosen
        if offer is not None and isinstance(field, Changes | Field):
            field.take(offer)
        else:
            self.app.action_focus_next()

    def action_other(self, by: int) -> bool:
        """Mark another offer; false where there is none."""
        return self.query_one(CompletionLine).turn(by)


def _about_preset(preset: PresetChoice, sought: str, width: int) -> str:
    """What keys do in the list of presets; what the preset is only where that leaves room for all of it."""
    search = f"search: {sought}" if sought else "letters search"
    keys = f"Enter takes {preset.name}  Ctrl-S starts it as below  {search}"
    whole = f"{keys}   {preset.description}"
    return whole if preset.description and cell_len(whole) <= width else whole_hints(keys, width)


def _usable(app_context: AppContext) -> list[PresetChoice]:
    return [preset for preset in app_context.presets if preset.error is None]


def _choices(presets: list[PresetChoice]) -> list[Choice]:
    return [Choice(preset.name, preset.label, preset.description) for preset in presets]
