"""What the branches of a trial came to, pair by pair, and one sentence; then take it, or clean up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from rich.table import Table
from textual.binding import Binding, BindingType
from textual.strip import Strip

from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.events.trials import ARMS
from mission_tui.fleet.views.snapshot import RunView, TrialView
from mission_tui.present import numbers
from mission_tui.present.run_state import state_word
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line, rendered, words, wrap
from mission_tui.tui.screens.sheet import Sheet
from mission_tui.tui.state.app_context import AppContext

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
