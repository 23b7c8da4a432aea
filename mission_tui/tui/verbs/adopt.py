"""`D`: a run that was made elsewhere, with everything it would run, taken for one's own once that was seen."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Adoptable
from mission_tui.ipc.requests import Adopt, GetAdoptable
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.screens.confirm import ConfirmScreen
from mission_tui.tui.verbs.acting import names

__all__ = ["adopt"]


async def adopt(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Show each foreign run's sheet in turn; those that get a yes are adopted as they were shown."""
    foreign = tuple(view for view in runs if "foreign" in view.flags)
    if not foreign:
        app_context.toast(f"{names(runs)}: yours already" if runs else "no run is chosen")
        return
    ids = tuple(view.id for view in foreign)
    reply = await app_context.ask(lambda id_: GetAdoptable(id=id_, runs=ids))
    for item in reply.items:
        if not item.digest:
            app_context.toast(f"{item.name}: {item.why}")
            continue
        facts = [f"foreign: {item.why}", *(f"{row.kind}: {row.value}" for row in item.rows)]
        if await app_context.ask_user(ConfirmScreen(f"{item.name} would run this", facts, "take it for yours")):
            await _take(app_context, item)


async def _take(app_context: AppContext, item: Adoptable) -> None:
    await app_context.ask(lambda id_: Adopt(id=id_, runs=(item.run,), digests=(item.digest,)))
    app_context.toast(f"{item.name} is yours now, as if launched here")
