"""What the launch form offers to complete in each of its fields, and the line that says what Tab would take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len

from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.specs.completion import Completion, complete
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.views.snapshot import FleetSnapshot, GpuMeters
from mission_tui.present import numbers
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, fit, line
from mission_tui.tui.widgets.lines import Lines

_ABOUT = {
    "form-presets": "↑ ↓ choose, letters search",
    "form-changes": "one key=value per line; several values with commas make one run each",
    "form-name": "its name; several become NAME-1, NAME-2, ...",
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


class OfferLine(Lines):
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
            used = sum(cell_len(text) for text, _ in parts)
            parts += [("   ↓ ", colours.KEY), (fit(others, max(0, width - used - 5)), colours.INK)]
        return parts
