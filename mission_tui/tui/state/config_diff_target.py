"""What the settings of a run are held against: nothing, its preset as it is now, or another run that was picked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mission_tui.errors import MissionError
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import GetDetails
from mission_tui.tui.screens.picker import Choice, Picker
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.run_status import state_word

__all__ = ["OF_A_COMMAND", "ConfigDiffTarget", "Other"]

OF_A_COMMAND = "command"
"""What the preset of a run is called that was launched by its command line: there is none to hold it against."""


@dataclass(frozen=True, slots=True)
class Other:
    """`name` says in words what it is, `run` whether it is one: of a preset nothing runs, and `effective` is empty."""

    name: str
    spec: Spec | None
    effective: Mapping[str, Any] = field(default_factory=dict)
    run: bool = False
    trouble: str = ""
    """Why there is nothing to hold against it; empty where there is a spec."""


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
            self._app_context.toast("there is no other run here to hold it against")
            return None
        taken = await self._app_context.ask_user(
            Picker(f"Hold the settings of {view.name} against", choices, typed=True)
        )
        return None if taken is None else self._app_context.view(taken)

    async def _run(self, run: RunView) -> Other:
        try:
            details = await self._app_context.ask(lambda id_: GetDetails(id=id_, run=run.id))
        except MissionError as error:
            return Other(run.name, None, run=True, trouble=str(error))
        return Other(run.name, details.spec, details.effective, run=True)
