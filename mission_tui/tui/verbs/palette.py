"""`:` and Ctrl-P: find an action, a preset or a run by typing a part of its name."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.actions import key_label, offered
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.listing.run_status import state_word
from mission_tui.tui.screens.picker import Choice, Picker
from mission_tui.tui.verbs.command import COMMANDS, type_command
from mission_tui.tui.verbs.launch import ask_first, launch, plan

__all__ = ["palette"]


async def palette(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Carry out, start or open what is taken."""
    choices = [
        Choice(f"do {action.call}", action.label, action.help, key_label(action.keys[0]))
        for action in offered(app_context.shown.PLACE, readonly=app_context.readonly)
        if action.menu
    ]
    if not app_context.readonly:
        choices += [
            Choice(f"start {preset.name}", f"start {preset.label}", preset.description, preset.key or "")
            for preset in app_context.presets
            if preset.error is None
        ]
        choices += [Choice(f"type {verb}", verb, about) for verb, about in COMMANDS.items()]
    runs = app_context.snapshot.runs if app_context.snapshot else ()
    choices += [Choice(f"open {view.id}", f"open {view.name}", f"{state_word(view)}  {view.id}") for view in runs]
    taken = await app_context.ask_user(Picker("Commands", choices, typed=True))
    if taken is None:
        return
    kind, _, value = taken.partition(" ")
    if kind == "do":
        await app_context.press(value)
    elif kind == "type":
        await type_command(app_context, f"{value} ")
    elif kind == "open" and (view := app_context.view(value)):
        app_context.open_run(view, "learn")
    else:
        for preset in app_context.presets:
            if kind == "start" and preset.name == value:
                if preset.from_folder:
                    await ask_first(app_context, preset)
                else:
                    await launch(app_context, await plan(app_context, preset, (), None, 1))
