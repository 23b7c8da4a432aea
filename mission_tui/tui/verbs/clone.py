"""`N`: a new run like the chosen one, with changes that are typed now."""

from __future__ import annotations

from functools import partial

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import UNDO_S, Clone
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.screens.line_input import LineInputScreen, settings_in
from mission_tui.tui.verbs.acting import typed

__all__ = ["clone"]

_HELP = (
    "KEY=VALUE, several with spaces between, or nothing. The new run has the settings, rules and seed of this one and "
    "begins from scratch; R, then branch, begins one with its weights."
)


async def clone(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Ask what is to be different, and start it."""
    view, origin = runs[0], app_context.origin

    async def begin(said: str) -> None:
        words = settings_in(said)
        reply = await app_context.ask(
            lambda id_: Clone(
                id=id_,
                run=view.id,
                assignments=words,
                cwd=origin.cwd,
                python=origin.python,
                environ=origin.environ,
                limits=origin.limits,
            )
        )
        assert isinstance(reply, Accepted)  # only an exact clone is asked about first
        app_context.launched(reply.runs)
        first, *warnings = reply.notes
        app_context.toast(f"started: {first}; u undoes for {UNDO_S:.0f} s", seconds=UNDO_S)
        for warning in warnings:
            app_context.toast(warning, "warning")
        app_context.redraw()

    make = partial(
        LineInputScreen, f"A new run like {view.name}", _HELP, "starts it", "ppo.learning_rate=1e-4 run.seed=2"
    )
    await typed(app_context, make, begin, empty=True)
