"""What each machine of the screen asks for a launch: all are asked at once, and each answer counts when it comes.

A machine that does not answer within seconds, or would refuse, has no price and says why.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping

from rich.style import Style

from mission_tui.errors import MissionError
from mission_tui.fleet.capacity.cost import whole_run_s
from mission_tui.fleet.specs.own_code import own_code, own_code_words
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.fleet.views.snapshot import Machine
from mission_tui.ipc.replies import Quoted
from mission_tui.ipc.requests import Quote
from mission_tui.present.machine_offers import Offer, best
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part
from mission_tui.tui.state.app_context import AppContext

BEST = "best"
_PATIENCE_S = 8.0
_OWN = frozenset({"variable", "apprise"})
"""What a preset may name beyond the program and still mean the same on another machine."""


def machines_of(app_context: AppContext) -> tuple[Machine, ...]:
    """The machines on which something can be launched from this screen; empty where it is this machine alone."""
    known = app_context.snapshot.hosts if app_context.snapshot else ()
    return known if len(known) > 1 or any(machine.away for machine in known) else ()


def stays_here(items: tuple[LaunchItem, ...], machine: Machine | None) -> str:
    """Why these runs cannot be launched on that machine from here; empty where they can."""
    if machine is None or not machine.away:
        return ""
    instead = f"`mission-tui --host {machine.name} launch` takes the preset that is there"
    for spec in (item.spec for item in items):
        if spec.run.launcher != "local":
            return f"{spec.preset} is for {spec.run.launcher} of this machine: {instead}"
        if spec.profile:
            return f"{spec.preset} asks for the host profile of its machine, and was given that of this one: {instead}"
        if code := own_code_words(found for found in own_code(spec) if found.kind not in _OWN):
            return f"{spec.preset} names what only this machine has ({code}): {instead}"
    return ""


class MachinePrices:
    """`changed` is called with each answer. `quoted` are the prices by machine, `troubles` why there is none."""

    def __init__(self, app_context: AppContext, changed: Callable[[], None]) -> None:
        self._app_context, self._changed = app_context, changed
        self._items: tuple[LaunchItem, ...] = ()
        self._turn = 0
        self.quoted: dict[str, Quoted] = {}
        self.troubles: dict[str, str] = {}

    def request(self, items: tuple[LaunchItem, ...]) -> None:
        """Ask every machine anew; prices of before stay until there is another."""
        if items != self._items:
            self.quoted, self.troubles = {}, {}
        self._items, self._turn = items, self._turn + 1
        for machine in machines_of(self._app_context):
            self._app_context.start(self._ask(machine, items, self._turn))

    def drop(self) -> None:
        """Answers on their way count no more."""
        self._turn += 1

    @property
    def offers(self) -> Mapping[str, Offer]:
        """Of the machines that would take it."""
        return {name: _offer(self._items, quoted) for name, quoted in self.quoted.items() if not quoted.refused}

    @property
    def best(self) -> str | None:
        """Where all would begin, then where they would be through first; None while nobody has made a price."""
        return best(self.offers)

    @property
    def complete(self) -> bool:
        """Whether every machine has said something."""
        return all(one.name in self.quoted or one.name in self.troubles for one in machines_of(self._app_context))

    def word(self, name: str) -> str:
        """The price of a machine in a few words, or why there is none."""
        if name == BEST:
            return f"now {self.best}" if self.best is not None else "asking all of them…"
        if name in self.troubles:
            return self.troubles[name]
        if name not in self.quoted:
            return "asking…"
        return self.quoted[name].refused or self.offers[name].sentence

    def parts(self) -> list[Part]:
        """A line for each machine."""
        good = self.best
        names = [machine.name for machine in machines_of(self._app_context)]
        wide = max(map(len, names), default=0)
        return [
            (f"{'✓' if name == good else '·'} {name:<{wide}}  {self.word(name)}", self._style(name)) for name in names
        ]

    def _style(self, name: str) -> Style:
        return colours.INK if name in self.offers else colours.QUIET

    async def _ask(self, machine: Machine, items: tuple[LaunchItem, ...], turn: int) -> None:
        origin, trouble, found = self._app_context.origin, stays_here(items, machine), None
        if not trouble:
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    found = await self._app_context.ask(lambda id_: Quote(id=id_, items=items, **origin), machine.name)
            except TimeoutError:
                trouble = f"no price within {_PATIENCE_S:.0f} s"
            except MissionError as error:
                trouble = str(error).removeprefix(f"{machine.name}: ")
        if turn != self._turn:
            return
        self.quoted.pop(machine.name, None)
        self.troubles.pop(machine.name, None)
        if found is None:
            self.troubles[machine.name] = trouble
        else:
            self.quoted[machine.name] = found
        self._changed()


def _offer(items: tuple[LaunchItem, ...], quoted: Quoted) -> Offer:
    takes = [whole_run_s(item.spec, cost.pace) for item, cost in zip(items, quoted.costs, strict=False)]
    takes_s = max((math.inf if one is None else one for one in takes), default=math.inf)
    return Offer(sum(bool(cost.waits) for cost in quoted.costs), takes_s, len(items))
