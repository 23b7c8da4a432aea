"""What keys do in the tabs of a run: compare its settings with its preset or another run, and copy what is shown.

Whole lines are copied, as one reads them. Nothing hidden goes along.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.screen import Screen

from mission_tui.errors import MissionError
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import GetDetails
from mission_tui.present import numbers
from mission_tui.present.run_settings import OF_A_COMMAND
from mission_tui.present.run_state import state_word
from mission_tui.tui.drawing.strips import literal
from mission_tui.tui.screens.picker import Picker
from mission_tui.tui.sections.config import Other
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.widgets.choices import Choice
from mission_tui.tui.widgets.findings import Findings
from mission_tui.tui.widgets.lines import ScrollLines
from mission_tui.tui.widgets.log_lines import LogLines
from mission_tui.tui.widgets.metric_list import MetricList
from mission_tui.tui.widgets.player import Player

MOST_BYTES = 48 << 10
"""Encoded for the terminal a third more; many terminals drop a longer sequence without a word."""


class ConfigDiffTarget:
    """`other` is None while every setting is shown. `changed` is called when it is another one."""

    def __init__(self, app_context: AppContext, changed: Callable[[], None]) -> None:
        self._app_context = app_context
        self._changed = changed
        self.other: Other | None = None

    async def turn(self, view: RunView) -> None:
        """To its preset, then to a run that the person picks, then back to every setting."""
        if self.other is None and view.preset != OF_A_COMMAND:
            self.other = await asyncio.to_thread(self._preset, view)
        elif (self.other is None or not self.other.run) and (run := await self._pick(view)) is not None:
            self.other = await self._run(run)
        else:
            self.other = None
        self._changed()

    def _preset(self, view: RunView) -> Other:
        name = f"preset {view.preset} as it is now"
        try:
            (spec, *_) = self._app_context.resolve(view.preset, ())
        except MissionError as error:
            return Other(name, None, trouble=str(error))
        return Other(name, spec)

    async def _pick(self, view: RunView) -> RunView | None:
        runs = self._app_context.snapshot.runs if self._app_context.snapshot else ()
        choices = [Choice(it.id, it.name, f"{state_word(it)}  {it.preset}") for it in runs if it.id != view.id]
        if not choices:
            self._app_context.refuse("there is no other run to compare with")
            return None
        taken = await self._app_context.ask_user(
            Picker(f"Compare the settings of {view.name} with", choices, typed=True)
        )
        return None if taken is None else self._app_context.view(taken)

    async def _run(self, run: RunView) -> Other:
        try:
            details = await self._app_context.ask(lambda id_: GetDetails(id=id_, run=run.id))
        except MissionError as error:
            return Other(run.name, None, run=True, trouble=str(error))
        return Other(run.name, details.spec, details.effective, run=True)


def lines_of(screen: Screen[None], tab: str) -> tuple[str, list[str]]:
    """What `tab` has to copy, in words, and its lines."""
    match tab:
        case "log":
            return screen.query_one(LogLines).to_copy()
        case "learn":
            lines = screen.query_one(MetricList).to_copy()
            return f"{len(lines)} metrics", lines
        case "watch":
            lines = screen.query_one(Player).text()
            return f"{len(lines)} lines of watch", lines
        case _:
            chosen = "#readings" if screen.query_one(Findings).finding is None else "#finding-text"
            lines = screen.query_one(chosen if tab == "health" else "#section", ScrollLines).text()
            return f"{numbers.count(len(lines))} lines of {tab}", lines


def copy_lines(app_context: AppContext, what: str, lines: list[str]) -> None:
    """Put `lines` on the terminal's clipboard and say so; of too many the last."""
    kept: list[str] = []
    size_bytes = 0
    for text in reversed([literal(text) for text in lines]):
        grown = size_bytes + len(text.encode(errors="replace")) + 1
        if grown > MOST_BYTES:
            break
        kept.append(text)
        size_bytes = grown
    if not kept:
        app_context.toast(
            "nothing to copy here" if not lines else "its last line is too long for the terminal's clipboard"
        )
        return
    app_context.copy("\n".join(reversed(kept)) + "\n")
    cut = "" if len(kept) == len(lines) else f", the last {numbers.count(len(kept))} of them,"
    app_context.toast(f"copied {what}{cut} ({numbers.size(size_bytes)}) to the terminal's clipboard")
