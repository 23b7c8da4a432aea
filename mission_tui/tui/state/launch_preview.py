"""What the launch form stands for, computed while it is typed: the runs that a launch would make, then their cost; and
what each machine of the screen asks for a launch, where there are several: all are asked at once.

Answers to an earlier text are dropped; an earlier cost stays, greyed, until the new one is there. A machine that does
not answer within seconds, or would refuse, has no price and says why.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from rich.style import Style

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.capacity.demand import whole_run_s
from mission_tui.fleet.specs.own_code import own_code, own_code_words
from mission_tui.fleet.specs.spec import LaunchItem, Spec
from mission_tui.fleet.views.snapshot import MachineView, of_machine
from mission_tui.ipc.replies import Quoted
from mission_tui.ipc.requests import Quote
from mission_tui.present.machines import Offer, best
from mission_tui.tui.client import LatestQuery
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.launch_draft import ELSEWHERE, Draft, followed, meaning, plan, price, words
from mission_tui.tui.state.presets import PresetChoice

_SETTLED_S = 0.05
"""The form is computed once nobody has typed for so long: a burst of keys is one question."""

_PAUSE_S = 0.15
"""The supervisor is asked after so much longer."""

_Form = tuple[PresetChoice | None, Draft]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a form stands for: its runs, or else what is wrong with it."""

    items: tuple[LaunchItem, ...]
    settings: tuple[str, ...]
    copies: int
    trouble: str | None = None


UseRuns = Callable[[tuple[LaunchItem, ...]], object]
_NO_PRESET, _NOT_READ = "there is no preset that can be used", "the presets are not read yet: one moment"


class LaunchPreview:
    """`changed` is called when there is something new to say; `settings` are the `--set` words of what stands there."""

    def __init__(self, app_context: AppContext, changed: Callable[[], None]) -> None:
        self._app_context = app_context
        self._changed = changed
        self._items: tuple[LaunchItem, ...] = ()
        self._copies = 1
        self._trouble: str | None = None
        self._quoted: Quoted | None = None
        self._silent = ""
        self._file = self._shown = self._bound = ""
        self._fresh = self._known = False
        self._asked: _Form | None = None
        self._waiting: tuple[UseRuns, bool] | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        start = app_context.start
        self._plans = LatestQuery(start, self._plan, self._take_plan, settle_s=_SETTLED_S)
        self._quotes = LatestQuery(start, self._quote, self._take_quote, settle_s=_PAUSE_S)
        self._prices = MachinePrices(app_context, self._take_price)
        self.settings: tuple[str, ...] = ()

    @property
    def machine(self) -> str:
        """The machine on which it would begin; empty on a screen of one, and while it is not known which is best."""
        machines = machines_of(self._app_context)
        chosen = self._asked[1].machine if self._asked is not None else None
        if chosen == BEST:
            return self._prices.best or "" if self._prices.complete else ""
        return chosen or (machines[0].name if machines else "")

    @property
    def spec(self) -> Spec | None:
        """The first of the runs that stood there last."""
        return self._items[0].spec if self._items else None

    def update(self, preset: PresetChoice | None, draft: Draft) -> None:
        """Compute what stands in the form now, unless nothing has changed."""
        asked = preset, draft
        if asked != self._asked:
            self._asked, self._fresh, self._known = asked, False, False
            self._settle()
            self._quotes.drop()
            self._plans.request(asked)

    def when_known(self, use: UseRuns, *, refused_too: bool = False) -> Coroutine[Any, Any, None]:
        """Call `use` with the runs of the form, once it is known what is wrong with them; not where there are none.

        Those of which it is known that a launch would be `refused` are none, unless `refused_too`. Of a preset of the
        working folder it has to stand there first what it names: a key typed ahead does not start it. To be awaited
        until it is settled.
        """
        preset = self._asked[0] if self._asked is not None else None
        if preset is None or preset.from_folder == self._shown:
            self._waiting = use, refused_too
            self._settled.clear()
            self._use()
        return self._until_settled()

    async def _until_settled(self) -> None:
        await self._settled.wait()

    def _use(self) -> None:
        if self._waiting is None or not self._known:
            return
        use, refused_too = self._waiting
        self._settle()
        if self._trouble is None and self._items and (refused_too or not self._refused):
            use(self._items)

    def _settle(self) -> None:
        """Have those who await an answer go on."""
        self._waiting = None
        self._settled.set()

    def requote(self) -> None:
        """Ask for the price once more: what is free, and who waits, changes by itself."""
        if self._known and self._trouble is None and self._items:
            self._ask_price(self._items)

    def _ask_price(self, items: tuple[LaunchItem, ...]) -> None:
        if machines_of(self._app_context):
            self._prices.request(items)
        else:
            self._quotes.request(items)

    def _take_price(self) -> None:
        """A machine has said its price: that of the one that is meant is the form's."""
        name = self.machine
        if name in self._prices.quoted:
            self._take_quote(self._items, self._prices.quoted[name])
        elif name in self._prices.troubles:
            self._take_quote(self._items, UsageError(self._prices.troubles[name]))
        else:
            self._changed()

    def close(self) -> None:
        """The form was left: answers on their way are dropped."""
        self._settle()
        self._plans.drop()
        self._quotes.drop()
        self._prices.drop()

    def sentences(self) -> list[Part]:
        """What is wrong, or the numbers that will run, and what they cost."""
        if self._trouble is not None:
            return [(f"✗ {self._trouble}", colours.ALARM)]
        if not self._items:
            return [("checking…", colours.QUIET)]
        said = [(f"✗ {self._refused}", colours.ALARM)] if self._refused else []
        said += self._origin()
        said += [(text, colours.INK) for text in meaning(self._items, self.settings, self._copies)]
        return [*said, *self._prices.parts(), *self._price(), (ELSEWHERE, colours.QUIET)]

    def _origin(self) -> list[Part]:
        """What a preset of the working folder names, before anything of it has run."""
        self._shown = self._file
        if not self._file:
            return []
        code = own_code_words(dict.fromkeys(found for item in self._items for found in own_code(item.spec)))
        names = f"names its own code: {code}" if code else "names no code of its own"
        return [(f"comes from {self._file} in this folder and {names}", colours.WARN)]

    @property
    def _refused(self) -> str:
        return self._bound or self._quoted.refused if self._quoted is not None and self._fresh else ""

    def _price(self) -> list[Part]:
        quoted, snapshot = self._quoted, self._app_context.snapshot
        if quoted is None or len(quoted.costs) != len(self._items):
            return [(f"what it costs is not known: {self._silent}" if self._silent else "…", colours.QUIET)]
        snapshot = of_machine(snapshot, self.machine) if snapshot else None
        cores, now = (snapshot.host.cores, snapshot.t) if snapshot else (None, 0.0)
        said = list(price(self._items, quoted, cores, now))
        return said if self._fresh else [(text, colours.QUIET) for text, _ in said]

    async def _plan(self, form: _Form) -> _Plan:
        """The runs that the form stands for, or what is wrong with it."""
        preset, draft = form
        settings, copies = self.settings, self._copies
        try:
            settings, copies = words(draft), draft.runs_of_each
            if preset is None:
                return _Plan((), settings, copies, _NO_PRESET if self._app_context.presets else _NOT_READ)
            items = await plan(
                self._app_context.resolve,
                preset,
                settings,
                name=draft.name or None,
                copies=copies,
                group=draft.group or None,
                after=followed(draft),
            )
        except MissionError as error:
            return _Plan((), settings, copies, str(error))
        return _Plan(items, settings, copies)

    def _take_plan(self, form: _Form, found: _Plan | MissionError) -> None:
        assert isinstance(found, _Plan)
        preset = form[0]
        self._trouble, self.settings, self._copies = found.trouble, found.settings, found.copies
        self._items = found.items or self._items
        self._file = preset.from_folder if preset is not None else ""
        self._known = not found.items
        if found.items:
            self._ask_price(found.items)
        self._changed()
        self._use()

    async def _quote(self, items: tuple[LaunchItem, ...]) -> Quoted:
        origin = self._app_context.origin
        return await self._app_context.ask(lambda id_: Quote(id=id_, items=items, **origin))

    def _take_quote(self, _items: tuple[LaunchItem, ...], found: Quoted | MissionError) -> None:
        self._known = True
        away = next((one for one in machines_of(self._app_context) if one.name == self.machine), None)
        self._bound = stays_here(self._items, away)
        self._quoted, self._silent = (None, str(found)) if isinstance(found, MissionError) else (found, "")
        self._fresh = self._quoted is not None
        self._changed()
        self._use()


BEST = "best"
_PATIENCE_S = 8.0
_OWN = frozenset({"variable", "apprise"})
"""What a preset may name beyond the program and still mean the same on another machine."""


def machines_of(app_context: AppContext) -> tuple[MachineView, ...]:
    """The machines on which something can be launched from this screen, those that do not answer last; empty where it
    is this machine alone.
    """
    hosts = app_context.snapshot.hosts if app_context.snapshot else ()
    known = tuple(sorted(hosts, key=lambda machine: machine.lost_t is not None))
    return known if len(known) > 1 or any(machine.away for machine in known) else ()


def stays_here(items: tuple[LaunchItem, ...], machine: MachineView | None) -> str:
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
        """Where all would begin, then where they would be through first; None while no price is known."""
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

    async def _ask(self, machine: MachineView, items: tuple[LaunchItem, ...], turn: int) -> None:
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
