"""Questions before something is done: yes or no, which leftovers to remove, one of many (by typing a part of it, or by
its key: the palette and the menu of actions), or one typed line; and a line of the command line, asked for and carried
out. And the list of choices with a cursor: what each is called, what it does, and the key that takes it at once.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import ClassVar

from rich.cells import cell_len
from rich.table import Table
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Paste
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.specs.assignment import Completion
from mission_tui.ipc.replies import LeftoverRow
from mission_tui.present import numbers
from mission_tui.procfs import short_name
from mission_tui.tui.actions import Move, rows_by
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import fit, line, literal, rendered, words, wrap
from mission_tui.tui.screens.sheets import OutputScreen, Sheet, still_open
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.widgets.lines import Lines, ScrollLines

_FEWEST_CELLS = 10
"""Less of a detail says nothing."""


@dataclass(frozen=True, slots=True)
class Choice:
    """`value` is what choosing it gives; `key` chooses it at once where nothing is typed. `also` is found by typing."""

    value: str
    label: str
    detail: str = ""
    key: str = ""
    also: str = ""

    @property
    def searched(self) -> str:
        """All that typing finds it by."""
        return f"{self.label} {self.detail} {self.also}".lower()


class Choices(Lines):
    """A list with a cursor that never leaves it."""

    @dataclass
    class Taken(Message):
        """The person took this value."""

        value: str

    class Moved(Message):
        """The cursor was moved by the mouse."""

    def __init__(self, choices: Sequence[Choice], *, id: str = "sheet-choices") -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.choices = list(choices)
        self.at = 0

    @property
    def is_highlighted(self) -> bool:
        """Whether the cursor's line is highlighted."""
        return True

    @property
    def current(self) -> Choice | None:
        """The choice under the cursor."""
        return self.choices[self.at] if self.choices else None

    def offer(self, choices: Sequence[Choice]) -> None:
        """List other choices; the cursor goes to the first."""
        self.choices, self.at = list(choices), 0
        self.redraw()

    def step(self, by: int) -> None:
        """Move the cursor."""
        self.at = max(0, min(self.at + by, len(self.choices) - 1))
        self.redraw()

    def redraw(self) -> None:
        """The window of choices around the cursor."""
        width, height = self.size
        if height <= 0:
            self.show([])
            return
        if not self.choices:
            self.show([line([("  nothing has all of these words", colours.QUIET)], width)])
            return
        top = max(0, min(self.at - height // 2, len(self.choices) - height))
        shown = list(enumerate(self.choices))[top : top + height]
        self.show([self._row(choice, width, chosen=at == self.at) for at, choice in shown])

    def _row(self, choice: Choice, width: int, *, chosen: bool) -> Strip:
        label, room = self._room(width)
        parts = [
            (">" if chosen else " ", colours.KEY),
            (f"{choice.key:<7}" if any(other.key for other in self.choices) else "", colours.KEY),
            (fit(choice.label, label), colours.INK),
            (" ", colours.INK),
            (fit(choice.detail, room), colours.QUIET),
        ]
        return line(parts, width, colours.CHOSEN if chosen and self.is_highlighted else None)

    def _room(self, width: int) -> tuple[int, int]:
        """Cells for labels and for details."""
        label = min(30, max((len(other.label) for other in self.choices), default=0) + 1)
        room = width - label - 9
        return label, room if room >= _FEWEST_CELLS else 0

    def cut(self, choice: Choice, width: int) -> bool:
        """Whether the list has no room for all of the detail."""
        return cell_len(literal(choice.detail)) > self._room(width)[1]

    def on_click(self, event: events.Click) -> None:
        """A click takes a choice."""
        top = max(0, min(self.at - self.size.height // 2, len(self.choices) - self.size.height))
        if top + event.y < len(self.choices):
            self.post_message(self.Taken(self.choices[top + event.y].value))

    def wheel(self, by: int) -> None:
        """The wheel moves the cursor."""
        self.step(by)
        self.post_message(self.Moved())


_MOST = 16
_NOTICED_S = 0.3
"""For so long an answer may take before a person wonders."""

Attempt = Callable[[str], Awaitable[None]]
Offers = Callable[[str], Sequence[Completion]]
"""What may stand for the word that was typed so far."""
_AROUND = 8
"""Rows of the screen that are the sheet's own."""
"""Does what a line says, or raises the `MissionError` for which it cannot."""


class ConfirmScreen(Sheet[bool]):
    """Only `y` says yes; Enter does not, because it is pressed in passing. With `instead`, `s` does that: False."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "accept", "yes"),
        Binding("n", "turn_away", "no"),
        Binding("s", "instead", "the other way"),
    ]

    def __init__(self, question: str, facts: Sequence[str], action: str, instead: str = "") -> None:
        other = f"s {instead}   " if instead else ""
        super().__init__(question, f"y {action}   {other}n or Esc leave it")
        self._facts, self._has_other = facts, instead != ""

    def lines(self, width: int) -> list[Strip]:
        """One fact after the other, folded."""
        return [line([(text, colours.INK)], width) for fact in self._facts for text in wrap(fact, width)]

    def action_accept(self) -> None:
        """Yes."""
        self.dismiss(True)

    def action_instead(self) -> None:
        """The gentler way, where there is one."""
        if self._has_other:
            self.dismiss(False)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"


def _sizes(found: LeftoverRow) -> str:
    vram = f" + {numbers.size(found.vram_bytes)} VRAM" if found.vram_bytes else ""
    return f"{numbers.size(found.memory_bytes)}{vram}"


class LeftoversScreen(Sheet[bool]):
    """Dismissed with True when those that are ours shall be removed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "accept", "remove"), Binding("n", "turn_away", "no")]

    def __init__(self, stale: tuple[LeftoverRow, ...]) -> None:
        self._ours = sum(found.verdict == "ours" for found in stale)
        hint = f"y remove the {self._ours} of ours   Esc back" if self._ours else "Esc back"
        super().__init__(f"{len(stale)} left behind by dead runs", hint)
        self._stale = stale

    def lines(self, width: int) -> list[Strip]:
        """A table, and a sentence about what is never touched."""
        table = Table.grid(padding=(0, 2, 0, 0), expand=True)
        for _ in range(5):
            table.add_column(no_wrap=True)
        # The command line is cut first: whose it is and what it holds matter more.
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for found in self._stale:
            ours = found.verdict == "ours"
            what = f"pid {found.pid}" if found.pid is not None else PurePath(found.name or "").name
            table.add_row(
                words(("ours", colours.GOOD) if ours else ("unsure", colours.WARN)),
                words((found.kind, colours.INK)),
                words((_cut(what), colours.INK)),
                words((_cut(short_name(found.run) if found.run else "no run"), colours.QUIET)),
                words((f"{numbers.duration(found.age_s)} {_sizes(found)}", colours.QUIET)),
                words((found.command, colours.QUIET)),
            )
        strips = rendered(table, width)
        if self._ours < len(self._stale):
            said = wrap("unsure ones are never removed: if one is yours, kill PID in a shell ends it", width)
            strips += [line([(text, colours.QUIET)], width) for text in said]
        return strips

    def action_accept(self) -> None:
        """Yes, if there is something to remove."""
        if self._ours:
            self.dismiss(True)


class _Line(Input):
    """What is pasted in several lines stands in it one behind the other; the base class drops all but the first."""

    def _on_paste(self, event: Paste) -> None:
        event.prevent_default()
        event.stop()
        super()._on_paste(Paste(" ".join(filter(None, map(str.strip, event.text.splitlines())))))


class LineInputScreen(Sheet[bool]):
    """A line that is corrected until it is accepted: `attempt` gets it, and what that refuses stands above it.

    `about` says what it may be, `enter` what Enter does with it. It stays open meanwhile, so that keys typed ahead are
    for this line. Dismissed with True once it was accepted. An empty line is attempted only if `empty` says something.
    `offers` asks what may stand for the word that is being typed: shown below the line, and Tab takes the first. The
    line does not wait for it, because keys that are typed ahead are for the line. `awaited` is said while the attempt
    takes long, where that is not for the supervisor, and who turns away then gives it up.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "turn_away", "back", priority=True),
        Binding("tab", "take", "take the first offer", priority=True),
    ]

    def __init__(
        self,
        app_context: AppContext,
        title: str,
        about: str,
        enter: str,
        placeholder: str,
        attempt: Attempt,
        text: str,
        *,
        empty: bool,
        offers: Callable[[], Awaitable[Offers]] | None,
        awaited: str,
    ) -> None:
        self._asks_offers = offers
        self._awaited, self._gives_up = awaited or "the supervisor has not answered yet", bool(awaited)
        self._offers: Offers | None = None
        self._keys = f"Enter {enter}{'   Tab completes' if offers else ''}   Esc back"
        super().__init__(title, self._keys)
        self._app_context, self._attempt = app_context, attempt
        self._about, self._placeholder, self._text, self._empty = about, placeholder, text, empty
        self._trouble = ""
        self._trying = False
        self._attempted: asyncio.Task[None] | None = None

    def content(self) -> ComposeResult:
        """The line to type into, above what it is for."""
        # A whole text is typed over, a line that was only begun is gone on with.
        whole = not self._text.endswith((" ", "="))
        such = f"such as {self._placeholder}"
        yield _Line(self._text, placeholder=such, compact=True, max_length=1000, select_on_focus=whole)
        yield from super().content()

    def lines(self, width: int) -> list[Strip]:
        """Why it was refused, and what to type."""
        said = ((self._trouble, colours.ALARM), (self._about, colours.QUIET))
        strips = [line([(text, style)], width) for words, style in said for text in wrap(words, width)]
        offered = [*self._offered()[: max(1, self.size.height - _AROUND - len(strips))]]
        keys = max((cell_len(offer.text) for offer in offered), default=0)
        for offer in offered:
            parts = [(f"{offer.text:<{keys}}  ", colours.INK), (offer.detail, colours.QUIET)]
            strips.append(line(parts, width))
        return strips

    def _typed(self) -> tuple[str, str]:
        """The text before the word at the end of the line, and that word."""
        said = self.query_one(Input).value if self.is_mounted else self._text
        start = said.rfind(" ") + 1
        return said[:start], said[start:]

    def _offered(self) -> Sequence[Completion]:
        return () if self._offers is None else self._offers(self._typed()[1])

    def action_take(self) -> None:
        """Tab: what is typed becomes the first of the offers."""
        if offers := self._offered():
            before, word = self._typed()
            box = self.query_one(Input)
            box.value = before + word[: offers[0].start] + offers[0].text
            box.cursor_position = len(box.value)

    async def _learn_offers(self, ask: Callable[[], Awaitable[Offers]]) -> None:
        self._offers = await ask()
        if still_open(self):
            self.refill()

    @on(Input.Changed)
    def _look_up(self) -> None:
        if self._offers is not None:
            self.refill()

    def on_mount(self) -> None:
        """Ready for typing."""
        self.query_one(Input).focus()
        if self._asks_offers is not None:
            self._app_context.start(self._learn_offers(self._asks_offers))

    def on_screen_suspend(self) -> None:
        """What the attempt asks stands over the screen below, not beside this line, which is seen again if refused."""
        self.query_one("#sheet").visible = False

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        said = event.value.strip()
        if not (said or self._empty):
            self.dismiss(False)
        elif not self._trying:
            self._app_context.carry_out(self._try(said))

    async def _try(self, said: str) -> None:
        self._trying, self._attempted = True, asyncio.current_task()
        slow = self.set_timer(_NOTICED_S, lambda: self.hint(f"{self._awaited}   Esc back"))
        try:
            await self._attempt(said)
        except MissionError as error:
            if not still_open(self):
                raise
            self._refused(error)
        else:
            if self.is_current:
                self.dismiss(True)
        finally:
            slow.stop()

    def action_turn_away(self) -> None:
        """Back; a sheet that came of a long wait later on would take keys meant for another."""
        if self._trying and self._gives_up and self._attempted is not None:
            self._attempted.cancel()
        super().action_turn_away()

    def _refused(self, error: MissionError) -> None:
        self._trouble, self._trying = str(error), False
        self.hint(self._keys)
        self.refill()
        box = self.query_one(Input)
        box.select_on_focus = False  # what was refused is corrected, not typed over
        self.query_one("#sheet").visible = True
        self.set_focus(box)


async def ask_line(
    app_context: AppContext,
    title: str,
    about: str,
    enter: str,
    placeholder: str,
    attempt: Attempt,
    text: str = "",
    *,
    empty: bool = False,
    offers: Callable[[], Awaitable[Offers]] | None = None,
    awaited: str = "",
) -> bool:
    """Whether a line was typed that `attempt` accepted; see `LineInputScreen`."""
    screen = LineInputScreen(
        app_context, title, about, enter, placeholder, attempt, text, empty=empty, offers=offers, awaited=awaited
    )
    accepted: bool | None = await app_context.ask_user(screen)
    return bool(accepted)


_WORD = re.compile(r"""(?:=(?:\{[^}]*\}|\[[^\]]*\]|"[^"]*"|'[^']*')|\S)+""")


def words_of(text: str) -> list[str]:
    """The words of a line; a value is one with the blanks in its brackets or quotes, as a schedule has them."""
    return _WORD.findall(text)


def settings_in(text: str) -> tuple[str, ...]:
    """The ``KEY=VALUE`` words of a line, also where `--set` was typed before them."""
    return tuple(word.removeprefix("--set=") for word in words_of(text) if word != "--set")


def options_in(text: str, *names: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The settings of a line, and what was typed behind each of the options `names`; empty where it was not given."""
    rest, given, typed = [], dict.fromkeys(names, ""), iter(words_of(text))
    for word in typed:
        name, equals, value = word.partition("=")
        if name in given:
            given[name] = value if equals else next(typed, "")
        else:
            rest.append(word)
    return settings_in(" ".join(rest)), given


_HELP = "A verb and its options, as after mission-tui in a shell; VERB --help says which there are."


async def type_command(app_context: AppContext, begun: str) -> None:
    """Ask for the line that begins so, and carry it out. Of several machines it has to say on which: that of the chosen
    run stands there already.
    """
    words: list[str] = []
    machines = app_context.snapshot.hosts if app_context.snapshot is not None else ()
    if machines:
        one = app_context.shown.chosen()
        begun = f"--host {machines[0].name if one is None else one.host} {begun}"

    async def split(said: str) -> None:
        try:
            words[:] = shlex.split(said)
        except ValueError as error:
            raise UsageError(f"the line is not complete: {str(error).lower()}") from error
        if words[:1] == ["mission-tui"]:
            del words[0]
        if machines and not any(word == "--host" or word.startswith("--host=") for word in words):
            names = " or ".join(f"--host {machine.name}" for machine in machines)
            raise UsageError(f"say on which machine: {names}")

    await ask_line(app_context, "mission-tui", _HELP, "carries it out", "metrics --help", split, begun)
    if words and app_context.snapshot is not None:
        root = app_context.snapshot.runs_root
        if machines:  # without `here` among them no runs root of this machine is meant
            root = next((machine.runs_root for machine in machines if not machine.away), "")
        app_context.open(OutputScreen(app_context, words, root))


_WHOLE_LINES = 2


class Picker(Sheet[str]):
    """With `typed`, letters filter (the palette); without, they are the choices' own keys (the menu)."""

    CHROME: ClassVar[int] = 8 + _WHOLE_LINES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", "up", priority=True),
        Binding("down", "step(1)", "down", priority=True),
        Binding("enter", "take", "take"),
        Binding("escape", "turn_away", "back", priority=True),
    ]

    def __init__(self, title: str, choices: Sequence[Choice], *, typed: bool) -> None:
        super().__init__(title, "Enter takes it   ↑ ↓ move   Esc back" + ("" if typed else "   or press its key"))
        self._choices = list(choices)
        self._typed = typed
        self._subject = self._title

    def _show_chosen(self) -> None:
        """Where the cursor is, with all of its detail; of how many, where the list is longer than its window."""
        choices = self.query_one(Choices)
        many = len(choices.choices)
        hidden = many > max(1, self.size.height - self.CHROME)
        self._title = f"{self._subject}   {choices.at + 1}/{many}" if hidden else self._subject
        for widget in self.query(ScrollLines):
            widget.redraw()

    def on_resize(self) -> None:
        """Another size holds more choices, or fewer."""
        super().on_resize()
        self._show_chosen()

    def content(self) -> ComposeResult:
        """The line to type into, if there is one, above the list."""
        if self._typed:
            yield Input(placeholder="type a part of it", compact=True)
        yield Choices(self._choices)
        yield ScrollLines(self._whole, id="sheet-whole")

    def _whole(self, width: int) -> list[Strip]:
        """The detail under the cursor in whole words; no lines where the list has room for every one."""
        choices = self.query_one(Choices)
        if not any(choices.cut(choice, width) for choice in self._choices):
            return []
        current = choices.current
        told = wrap(current.detail, width) if current is not None and choices.cut(current, width) else []
        return [line([(text, colours.INK)], width) for text in [*told, *[""] * _WHOLE_LINES][:_WHOLE_LINES]]

    def on_mount(self) -> None:
        """Size the list and get ready for typing."""
        self.query_one(Choices).styles.height = max(1, len(self._choices))
        if self._typed:
            self.query_one(Input).focus()

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        words = event.value.lower().split()
        found = [one for one in self._choices if all(word in one.searched for word in words)]

        def place(one: Choice) -> tuple[bool, bool, bool]:
            """What begins so comes first, then what has just these words in its name, then what is called so."""
            label = one.label.lower()
            whole = label.split()
            return (
                not (words and label.startswith(words[0])),
                not all(word in whole for word in words),
                not all(word in label for word in words),
            )

        self.query_one(Choices).offer(sorted(found, key=place) if words else found)
        self._show_chosen()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        """Enter comes through the line, so that it takes what all that was typed before it leaves."""
        self.action_take()

    def on_key(self, event: events.Key) -> None:
        """A choice's own key takes it."""
        if not self._typed:
            for choice in self._choices:
                if choice.key and event.character == choice.key:
                    event.stop()
                    self.take(choice.value)
                    return

    def on_choices_taken(self, message: Choices.Taken) -> None:
        """A click took it."""
        self.take(message.value)

    def take(self, value: str) -> None:
        """A choice was taken."""
        self.dismiss(value)

    def on_choices_moved(self) -> None:
        """The wheel moved the cursor."""
        self._show_chosen()

    def action_step(self, by: int) -> None:
        """Move the cursor."""
        self.query_one(Choices).step(by)
        self._show_chosen()

    def action_scroll_to(self, how: Move) -> None:
        """The other keys that move, by a line, a page, or to an end."""
        self.action_step(rows_by(how, 10, len(self._choices)))

    def action_take(self) -> None:
        """Take what the cursor is on."""
        current = self.query_one(Choices).current
        if current is not None:
            self.take(current.value)
