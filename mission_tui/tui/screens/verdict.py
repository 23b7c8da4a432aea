"""Verdicts that are answered by one key: what a resume would change, field by field, with grade, reason and remedies;
and what the branches of a trial came to, pair by pair, with one sentence, to be taken or cleaned up.

A finding's advice is a resume too, but one that is always asked about: a `Proposal` says what else it means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from rich.style import Style
from rich.table import Table
from textual.binding import Binding, BindingType
from textual.strip import Strip

from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.events.trials import ARMS
from mission_tui.fleet.resume.verdict import Change, Grade
from mission_tui.fleet.views.snapshot import RunView, TrialView
from mission_tui.ipc.replies import VerdictReply
from mission_tui.present import numbers
from mission_tui.present.run_state import state_word
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, line, rendered, words, wrap
from mission_tui.tui.screens.sheets import Sheet
from mission_tui.tui.state.app_context import AppContext

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
        differ = any(change.was != change.now for change in reply.verdict.changes)
        if words:
            self._facts = (f"asked: {' '.join(words)}",)
        elif self._acceptable and proposal is None and self._choice == Choice() and reply.checkpoint and differ:
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


_LOOK_S = 1.0
TrialAnswer = Literal["take", "discard", "again"]
_VERDICT_STYLES = {"helps": colours.GOOD, "hurts": colours.ALARM, "no difference": colours.INK}


class TrialScreen(Sheet[TrialAnswer]):
    """Dismissed with what is to become of it. It follows the newest trial of `run` as snapshots come."""

    surprises = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "take", "take"),
        Binding("d", "discard", "discard"),
        Binding("n", "again", "another"),
    ]

    def __init__(self, app_context: AppContext, view: RunView) -> None:
        self._app_context, self._view = app_context, view
        super().__init__(f"Trial {self._trial.plan.number} of {view.name}", self._keys())

    @property
    def _trial(self) -> TrialView:
        return self._view.trials[-1]

    def on_mount(self) -> None:
        """Look again now and then: the branches go on."""
        self.set_interval(_LOOK_S, self._look)

    def _look(self) -> None:
        newest = self._app_context.view(self._view.id)
        if newest is not None and newest.trials:
            self._view = newest
        self.hint(self._keys())
        self.refill()

    @property
    def _may_take(self) -> bool:
        trial = self._trial
        return trial.verdict is not None and trial.verdict.says == "helps" and not trial.closed

    @property
    def _goes_on(self) -> bool:
        trial = self._trial
        return trial.closed in ("taking", "returning") or (trial.verdict is None and not trial.closed)

    def _keys(self) -> str:
        take = "t take its place   " if self._may_take else ""
        discard = "" if self._trial.closed else "d discard   "
        again = "" if self._goes_on else "n another try   "
        return f"{take}{discard}{again}Esc back"

    def lines(self, width: int) -> list[Strip]:
        """What is tried and from where; the answer; each pair."""
        trial, plan = self._trial, self._trial.plan
        style = colours.INK if trial.verdict is None else _VERDICT_STYLES.get(trial.verdict.says, colours.WARN)
        told = [(trial.sentence.partition(": ")[2], style)] if trial.verdict is not None or trial.closed else []
        origin = f"from {plan.origin}, {plan.updates} updates in each branch"
        about = [(plan.settings, colours.BOLD), (origin, colours.QUIET), *told]
        rows = [line([(part, style)], width) for text, style in about for part in wrap(text, width)]
        return [*rows, line([], width), *self._pairs(width)]

    def _pairs(self, width: int) -> list[Strip]:
        table = Table.grid(padding=(0, 2, 0, 0), expand=True)
        for _ in range(3):
            table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        table.add_row(*(words((name, colours.QUIET)) for name in ("pair", "control", "advised", "")))
        for cells in self._judged() if self._trial.verdict is not None else self._standing():
            table.add_row(*(words((cell, colours.INK)) for cell in cells))
        return rendered(table, width)

    def _judged(self) -> Iterator[tuple[str, str, str, str]]:
        verdict = self._trial.verdict
        for pair in () if verdict is None else verdict.pairs:
            yield str(pair.pair), numbers.reading(pair.control), numbers.reading(pair.advised), pair.why

    def _standing(self) -> Iterator[tuple[str, str, str, str]]:
        """How each branch stands while the verdict is awaited."""
        snapshot, number = self._app_context.snapshot, self._trial.plan.number
        there = {
            (it.branch_of.arm, it.branch_of.pair): it
            for it in (snapshot.runs if snapshot is not None else ())
            if it.branch_of is not None and (it.branch_of.of, it.branch_of.number) == (self._view.id, number)
        }
        for pair in range(1, len(self._trial.plan.seeds) + 1):
            control, advised = (there.get((arm, pair)) for arm in ARMS)
            yield str(pair), self._standing_of(control), self._standing_of(advised), ""

    def _standing_of(self, view: RunView | None) -> str:
        if view is None:
            return numbers.DASH
        done = (view.update or self._trial.plan.from_update) - self._trial.plan.from_update
        if view.state in OVER or not done:
            return state_word(view)
        # One that stands holds up the verdict until somebody has it go on.
        stands = view.unheard_since is not None or view.state not in ("starting", "running")
        return f"{done} of {self._trial.plan.updates}{f', {state_word(view)}' if stands else ''}"

    def action_take(self) -> None:
        """Give the run's place to the best branch."""
        if self._may_take:
            self.dismiss("take")

    def action_again(self) -> None:
        """Try something else; the branches of this one stay."""
        if not self._goes_on:
            self.dismiss("again")

    def action_discard(self) -> None:
        """Move the branches to the trash."""
        if not self._trial.closed:
            self.dismiss("discard")
