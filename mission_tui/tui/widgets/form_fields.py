"""The fields of the launch form: lines of changes, a choice by hand, and lines that complete; what each offers to
complete, and the line that says what Tab would take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, TextArea

from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.specs.assignment import Completion, complete
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.views.snapshot import FleetSnapshot, GpuMeters
from mission_tui.present import numbers
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, fit, line, part_cells
from mission_tui.tui.widgets.lines import Lines


class TakesTab(Protocol):
    """The form around the fields."""

    def action_next(self) -> None: ...
    def action_other(self, by: int) -> bool: ...


class _FormField:
    """A field that passes keys on in the order in which they were pressed.

    No widget itself: Textual takes the styles of the first base that is one.
    """

    _form: TakesTab

    def on_key(self, event: events.Key) -> None:
        """Tab acts on what was typed before it, and what was typed after it belongs to the field to which it led.

        As a binding of the form it would come too early where it has priority, and elsewhere too late: keys go from
        widget to widget by queues.
        """
        assert isinstance(self, Widget)
        focused = self.screen.focused
        if focused is not None and focused is not self:
            event.stop().prevent_default()
            focused._forward_event(events.Key(event.key, event.character))
        elif event.key == "tab":
            event.stop().prevent_default()
            self._form.action_next()


class DrawnField(_FormField):
    """A field of our own, drawn with a highlight while keys go to it."""

    def on_focus(self) -> None:
        """Light up."""
        assert isinstance(self, Lines)
        self.call_later(self.redraw)

    def on_blur(self) -> None:
        """Keys go elsewhere; the focus is only gone after this event."""
        assert isinstance(self, Lines)
        self.call_later(self.redraw)


class Field(_FormField, Input):
    """A line of the form; `typed` is empty while the cursor stands within what is there. Tab is the `form`'s."""

    def __init__(self, form: TakesTab, value: str = "", **how: Any) -> None:
        super().__init__(value, compact=True, select_on_focus=False, **how)
        self._form = form

    @property
    def typed(self) -> str:
        """The text up to the cursor, where that is at the end."""
        return self.value if self.cursor_position == len(self.value) else ""

    def take(self, offer: Completion) -> None:
        """Put `offer` for what was typed."""
        self.value = self.value[: offer.start] + offer.text
        self.cursor_position = len(self.value)


class Changes(_FormField, TextArea):
    """One `key=value` a line. On the last line, which they would leave for nothing, arrows mark what is offered."""

    def __init__(self, form: TakesTab, placeholder: str) -> None:
        super().__init__(id="form-changes", compact=True, tab_behavior="focus", placeholder=placeholder)
        self._form = form

    def render_line(self, y: int) -> Strip:
        """Blank where there is no room: Textual folds the placeholder to what is left, and no width ends the screen."""
        return super().render_line(y) if self.content_size.width > 0 else Strip.blank(self.size.width)

    @property
    def typed(self) -> str:
        """The line up to the cursor, where that is at its end."""
        row, column = self.cursor_location
        text = self.document.get_line(row)
        return text if column == len(text) else ""

    def action_cursor_down(self, select: bool = False) -> None:
        """The next offer, or the next line."""
        if select or not self._at_last or not self._form.action_other(1):
            super().action_cursor_down(select)

    def action_cursor_up(self, select: bool = False) -> None:
        """The offer before, or the line above."""
        if select or not self._at_last or not self._form.action_other(-1):
            super().action_cursor_up(select)

    @property
    def _at_last(self) -> bool:
        return self.cursor_location[0] == self.document.line_count - 1

    def take(self, offer: Completion) -> None:
        """Put `offer` for what was typed on the line."""
        row, column = self.cursor_location
        self.replace(offer.text, (row, offer.start), (row, column), maintain_selection_offset=False)
        self.move_cursor((row, offer.start + len(offer.text)))


class Selector(DrawnField, Lines, can_focus=True):
    """One of a few words, turned through with the arrows; the first stands for no word at all."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "turn(-1)", "before"),
        Binding("right,l,space", "turn(1)", "next"),
    ]

    class Turned(Message):
        """Another word is chosen."""

    def __init__(self, form: TakesTab, nothing: str, words: Sequence[str], *, id: str) -> None:  # noqa: A002 - Textual's
        super().__init__(id=id)
        self._form = form
        self._words = (nothing, *words)
        self._at = 0

    @property
    def word(self) -> str | None:
        """The chosen word; None for none of them."""
        return self._words[self._at] if self._at else None

    def turn_to(self, word: str | None) -> None:
        """Choose `word`; None, or one that there is no more, is no word at all."""
        self._at = self._words.index(word) if word in self._words[1:] else 0
        self.redraw()

    def offer(self, words: Sequence[str]) -> None:
        """Other words to choose from; the one that is chosen stays where it is among them."""
        word, self._words, self._at = self.word, (self._words[0], *words), 0
        self.turn_to(word)

    def redraw(self) -> None:
        """The word, between the arrows that turn it while the keys go here."""
        style = colours.CHOSEN + colours.KEY if self.has_focus else colours.INK
        self.show([line([(f"< {self._words[self._at]} >", style)], self.size.width)])

    def action_turn(self, by: int) -> None:
        """To the next word, round and round."""
        self._at = (self._at + by) % len(self._words)
        self.redraw()
        self.post_message(self.Turned())

    def on_click(self, _event: events.Click) -> None:
        """A click turns."""
        self.action_turn(1)


_ABOUT = {
    "form-presets": "↑ ↓ choose, letters search",
    "form-changes": "one key=value per line; several values with commas make one run each",
    "form-name": "its name, of letters, digits, dots, dashes, underscores; several get -1, -2, ...",
    "form-group": "group for listing and comparing several runs; empty: a new one",
    "form-after": "names of runs that have to end first",
    "form-copies": "how many runs of each",
    "form-seeds": "how many seeds, counting up from the next field, or from 1: one run each",
    "form-first-seed": "the seed, or the first of several; empty: the preset's, or one drawn",
    "form-device": "← → by hand; auto takes the GPU with room for it that is least busy",
    "form-machine": "← → where it begins; best is where all would begin, then where they would be through first",
    "form-priority": "higher starts first; one step counts as an hour of waiting",
}
"""By the field's id."""


def offers(field: str, typed: str, spec: Spec | None, snapshot: FleetSnapshot | None) -> tuple[Completion, ...]:
    """What may follow `typed`, the text of `field` up to the cursor; `spec` is what the form stands for so far."""
    runs = snapshot.runs if snapshot else ()
    if field == "form-changes":
        indent = len(typed) - len(typed.lstrip())
        if typed.lstrip().startswith("#"):
            return ()
        known = {
            "env.id": tuple(dict.fromkeys(view.env_id for view in runs if view.env_id)),
            "run.device": devices(snapshot.gpus if snapshot else ()),
        }
        found = complete(typed.lstrip(), spec, known)
        return tuple(Completion(offer.text, offer.start + indent, offer.detail) for offer in found)
    if field == "form-after":
        start = max(typed.rfind(","), typed.rfind(" ")) + 1
        names = (view.name for view in runs if view.state in ALIVE or view.state == "queued")
        return _beginning(names, typed, start)
    if field == "form-group":
        return _beginning((view.group for view in runs if view.group), typed, 0)
    return ()


def devices(gpus: Iterable[GpuMeters]) -> tuple[str, ...]:
    """What `run.device` can be on a machine with these GPUs; instances of one in MIG mode have no number."""
    whole = [gpu for gpu in gpus if not gpu.parent]
    return ("auto", "cpu", *(f"cuda:{number}" for number in range(len(whole))))


def about(field: str, device: str | None, snapshot: FleetSnapshot | None) -> str:
    """What `field` is for; of a GPU that was chosen by hand as its `device`, what is free of it."""
    whole = [gpu for gpu in (snapshot.gpus if snapshot else ()) if not gpu.parent]
    number = (device or "").partition("cuda:")[2]
    if not number or int(number) >= len(whole):
        return _ABOUT.get(field, "")
    gpu = whole[int(number)]
    if gpu.memory_total is None or gpu.memory_used is None:
        return gpu.name
    free = numbers.size(gpu.memory_total - gpu.memory_used)
    return f"{gpu.name}, {free} of {numbers.size(gpu.memory_total)} free"


def _beginning(names: Iterable[str], typed: str, start: int) -> tuple[Completion, ...]:
    begun = typed[start:]
    if not begun:
        return ()
    found = dict.fromkeys(name for name in names if name.startswith(begun) and name != begun)
    return tuple(Completion(name, start) for name in found)


def _nothing(_width: int) -> str:
    return ""


class CompletionLine(Lines):
    """One of the offers is marked: `chosen` is what Tab takes."""

    def __init__(self) -> None:
        super().__init__(id="form-offers")
        self._question: object = None
        self._offers: Sequence[Completion] = ()
        self._at = 0
        self._about: Callable[[int], str] = _nothing

    @property
    def chosen(self) -> Completion | None:
        """The marked offer; None where nothing is offered."""
        return self._offers[self._at] if self._offers else None

    def offer(self, question: object, offers: Sequence[Completion], about: Callable[[int], str]) -> None:
        """Show these, the first marked unless the `question` is as it was; where there are none, what `about` says in
        so many cells.
        """
        if (question, offers) != (self._question, self._offers):
            self._at = 0
        self._question, self._offers, self._about = question, offers, about
        self.redraw()

    def turn(self, by: int) -> bool:
        """Mark another one; false where there is none on that side."""
        there = 0 <= self._at + by < len(self._offers)
        if there:
            self._at += by
            self.redraw()
        return there

    def redraw(self) -> None:
        """The marked offer with what it is, then those after it."""
        width = self.size.width
        parts = self._parts(width) if self._offers else [(self._about(width), colours.QUIET)]
        self.show([line(parts, width)])

    def _parts(self, width: int) -> list[Part]:
        chosen = self._offers[self._at]
        detail = f" {chosen.detail}" if chosen.detail else ""
        parts: list[Part] = [("Tab ", colours.KEY), (chosen.text, colours.CHOSEN), (detail, colours.QUIET)]
        others = "  ".join(offer.text for offer in self._offers[self._at + 1 :])
        if others:
            used = part_cells(parts)
            parts += [("   ↓ ", colours.KEY), (fit(others, max(0, width - used - 5)), colours.INK)]
        return parts
