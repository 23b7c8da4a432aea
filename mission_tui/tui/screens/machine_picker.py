"""Where a launch is to begin, on a screen of several machines: each with its price, which comes when it comes."""

from __future__ import annotations

from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.fleet.views.snapshot import Machine
from mission_tui.tui.screens.picker import Picker
from mission_tui.tui.screens.sheet import still_open
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.machine_prices import BEST, MachinePrices
from mission_tui.tui.widgets.choices import Choice, Choices


class MachinePicker(Picker):
    """Dismissed with the name of a machine, or None. The cursor begins at the machine of the last launch."""

    def __init__(self, app_context: AppContext, items: tuple[LaunchItem, ...], machines: tuple[Machine, ...]) -> None:
        self._app_context, self._items, self._machines = app_context, items, machines
        self._prices = MachinePrices(app_context, self._priced)
        what = items[0].spec.preset if len({item.spec.preset for item in items}) == 1 else f"{len(items)} runs"
        super().__init__(f"Start {what} where?", self._choices_now(), typed=False)

    def on_mount(self) -> None:
        """Ask each machine for its price."""
        super().on_mount()
        names = [choice.value for choice in self._choices]
        if self._app_context.launches_at in names:
            self.action_step(names.index(self._app_context.launches_at))
        self._prices.request(self._items)

    def on_unmount(self) -> None:
        """Prices on their way are nobody's."""
        self._prices.drop()

    def take(self, value: str) -> None:
        """A machine; `best` only once all have said their price."""
        found = value if value != BEST else self._prices.best if self._prices.complete else None
        if found is None:
            self._app_context.toast("which is best is not known before all have said their price")
        else:
            self._app_context.launches_at = value
            self.dismiss(found)

    def _choices_now(self) -> list[Choice]:
        shown = [
            Choice(one.name, one.name, self._prices.word(one.name), str(at) if at < 10 else "")
            for at, one in enumerate(self._machines, start=1)
        ]
        return [*shown, Choice(BEST, BEST, self._prices.word(BEST), "b")]

    def _priced(self) -> None:
        if still_open(self):
            choices = self.query_one(Choices)
            at, self._choices = choices.at, self._choices_now()
            choices.offer(self._choices)
            choices.step(at)
            self._told()
