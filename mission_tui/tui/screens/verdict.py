"""What a resume would change, field by field, with grade, reason and remedies; each remedy is one key.

A finding's advice is a resume too, but one that is always asked about: a `Proposal` says what else it means.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.strip import Strip

from mission_tui.fleet.resume.verdict import Change, Grade
from mission_tui.ipc.replies import VerdictReply
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, line, wrap
from mission_tui.tui.screens.sheet import Sheet

_STYLES: dict[Grade, Style] = {
    "safe": colours.GOOD,
    "note": colours.QUIET,
    "warn": colours.WARN,
    "refuse": colours.ALARM,
}
_ORDER: tuple[Grade, ...] = ("refuse", "warn", "note", "safe")
_KEYS = "123456789ABCDEFGHI"
_INDENT = 7


@dataclass(frozen=True, slots=True)
class Proposal:
    """The question to ask, what comes of a yes beside the changes, and what `y` does in a few words."""

    question: str
    facts: tuple[str, ...]
    action: str


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person has picked so far, as the words that `resume` takes; `agreed` is their yes to what is shown."""

    remedies: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    branch: bool = False
    agreed: bool = False

    @property
    def said(self) -> str:
        """The options of `resume` that say the same."""
        words = [f"--remedy {name}" for name in self.remedies] + [f"--override {field}" for field in self.overrides]
        return " ".join(words + ["--branch"] * self.branch)


@dataclass(frozen=True, slots=True)
class _Offer:
    """One key: what it says, and what has been chosen once it is pressed."""

    key: str
    text: str
    choice: Choice


class VerdictScreen(Sheet[Choice]):
    """Dismissed with what was chosen: agreed to, or to be judged again with one remedy more. `stops`: the run trains
    now, and is stopped for it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "accept", "accept"),
        Binding("n", "turn_away", "no"),
        Binding("0", "start_over", "as first asked"),
        *(Binding(key, f"choose('{key}')", "remedy") for key in _KEYS),
    ]

    def __init__(
        self,
        name: str,
        reply: VerdictReply,
        proposal: Proposal | None = None,
        choice: Choice | None = None,
        words: tuple[str, ...] = (),
        *,
        stops: bool = False,
    ) -> None:
        self._stops = stops
        self._choice = choice or Choice()
        grave = reply.verdict.grade == "refuse" and not self._choice.branch
        self._acceptable = not grave and (
            reply.accept_needed or proposal is not None or bool(words) or self._choice != Choice()
        )
        self._facts = proposal.facts if proposal else ()
        if words:
            self._facts = (f"asked: {' '.join(words)}",)
        elif self._acceptable and proposal is None and self._choice == Choice() and reply.checkpoint and _differ(reply):
            # Nothing new was asked for: the changes were accepted earlier, by an attempt that saved no checkpoint.
            self._facts = (f"checkpoint {reply.checkpoint} is from before these changes",)
        if self._choice != Choice():
            self._facts = (*self._facts, f"chosen: {self._choice.said}")
        self._reply = reply
        changes = sorted(reply.verdict.changes, key=lambda change: _ORDER.index(change.grade))
        self._changes = tuple(changes)
        self._offers = () if proposal is not None else _offers(self._changes, self._choice)
        super().__init__(self._question(name, proposal), self._hint_for(proposal))

    def _question(self, name: str, proposal: Proposal | None) -> str:
        if not self._acceptable:
            refused = [change for change in self._changes if change.grade == "refuse"]
            if refused and all(map(_used_up, refused)):
                return f"{name} has finished: train on?"
            return f"{name} cannot be resumed like this"
        if proposal is not None:
            return proposal.question
        if self._choice.branch:
            return f"Start a new run from {name}?"
        return f"{f'Stop {name} and resume it' if self._stops else f'Resume {name}'} with these changes?"

    def _hint_for(self, proposal: Proposal | None) -> str:
        parts = []
        if self._acceptable:
            resume = "stop it and resume like this" if self._stops else "resume like this"
            action = "start the new run" if self._choice.branch else resume
            parts.append(f"y {proposal.action if proposal else action}")
        if self._offers:
            keys = [offer.key for offer in self._offers]
            parts.append(f"{keys[0]}-{keys[-1]} choose" if len(keys) > 1 else f"{keys[0]} choose")
        if self._choice != Choice():
            parts.append("0 start over")
        parts += ["↑↓ scroll", "Esc leave it" if self._acceptable else "Esc back"]
        return "  ".join(parts)

    def lines(self, width: int) -> list[Strip]:
        """The worst changes first: what, from what to what, why it matters, and each remedy with its key."""
        rows: list[list[Part]] = [[(text, colours.INK)] for fact in self._facts for text in wrap(fact, width)]
        rows += [[(text, colours.WARN)] for text in wrap(self._reply.not_now, width)] if self._reply.not_now else []
        rows += [[]] if rows else []
        offers = iter(self._offers)
        for change in self._changes:
            course = change.now if change.was == change.now else f"{change.was} → {change.now}"
            head = wrap(f"{change.name}: {course}", width - _INDENT)
            grade, style = ("done", colours.QUIET) if _used_up(change) else (change.grade, _STYLES[change.grade])
            rows.append([(f"{grade:<{_INDENT}}", style), (head[0], colours.BOLD)])
            rows += [[(" " * _INDENT + text, colours.BOLD)] for text in head[1:]]
            rows += [[(" " * _INDENT + text, colours.INK)] for text in wrap(change.why, width - _INDENT)]
            if change.remedy and not change.remedies:
                advice = wrap(f"instead: {change.remedy}", width - _INDENT)
                rows += [[(" " * _INDENT + text, colours.GOOD)] for text in advice]
            for _ in _ways(change, self._choice):
                offer = next(offers, None)
                rows += [] if offer is None else _offer_rows(offer, width)
        return [line(parts, width) for parts in rows]

    def action_accept(self) -> None:
        """Yes, if there is something to accept."""
        if self._acceptable:
            self.dismiss(replace(self._choice, agreed=True))

    def action_choose(self, key: str) -> None:
        """Have it judged again with one remedy more."""
        for offer in self._offers:
            if offer.key == key:
                self.dismiss(offer.choice)

    def action_start_over(self) -> None:
        """Have it judged as it was first asked."""
        if self._choice != Choice():
            self.dismiss(Choice())


def _used_up(change: Change) -> bool:
    """Whether it is a budget that stays as it was and has been trained: nothing wrong was asked for."""
    stays = change.grade == "refuse" and change.was == change.now
    return stays and any(it.name == "as-long-again" for it in change.remedies)


def _differ(reply: VerdictReply) -> bool:
    return any(change.was != change.now for change in reply.verdict.changes)


def _offers(changes: tuple[Change, ...], choice: Choice) -> tuple[_Offer, ...]:
    """What can be picked, in the order it is shown."""
    found = [way for change in changes for way in _ways(change, choice)]
    return tuple(_Offer(key, *way) for key, way in zip(_KEYS, found, strict=False))


def _ways(change: Change, choice: Choice) -> list[tuple[str, Choice]]:
    """What helps with `change` and was not chosen yet. A branch is another run, for which nothing need be repaired."""
    found: list[tuple[str, Choice]] = []
    for remedy in change.remedies if not choice.branch else ():
        word = f"{remedy.name}:{change.name}"
        if word in choice.remedies:
            continue
        more = replace(choice, remedies=(*choice.remedies, word))
        picked = replace(choice, branch=True) if remedy.name == "branch" else more
        found.append((f"{remedy.name}: {remedy.what}", picked))
    if change.override and not choice.branch:
        against = replace(choice, overrides=(*choice.overrides, change.name))
        found.append(("override: resume although this is refused", against))
    return found


def _offer_rows(offer: _Offer, width: int) -> list[list[Part]]:
    key = f"{offer.key:>{_INDENT - 1}} "
    first, *more = wrap(offer.text, width - _INDENT)
    head: list[Part] = [(key, colours.BOLD), (first, colours.GOOD)]
    return [head, *([(" " * _INDENT + text, colours.GOOD)] for text in more)]
