"""`:` and Ctrl-P: find an action, a preset or a run by typing a part of its name."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.actions import key_label, offered
from mission_tui.tui.desk import Desk
from mission_tui.tui.listing.standing import state_word
from mission_tui.tui.screens.picker import Choice, Picker
from mission_tui.tui.verbs.command import COMMANDS, type_command
from mission_tui.tui.verbs.launch import ask_first, launch, plan

__all__ = ["palette"]


async def palette(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Carry out, start or open what is taken."""
    choices = [
        Choice(f"do {action.call}", action.label, action.help, key_label(action.keys[0]))
        for action in offered(desk.shown.PLACE, readonly=desk.readonly)
        if action.menu
    ]
    if not desk.readonly:
        choices += [
            Choice(f"start {preset.name}", f"start {preset.label}", preset.description, preset.key or "")
            for preset in desk.presets
            if preset.error is None
        ]
        choices += [Choice(f"type {verb}", verb, about) for verb, about in COMMANDS.items()]
    runs = desk.snapshot.runs if desk.snapshot else ()
    choices += [Choice(f"open {view.id}", f"open {view.name}", f"{state_word(view)}  {view.id}") for view in runs]
    taken = await desk.consult(Picker("Commands", choices, typed=True))
    if taken is None:
        return
    kind, _, value = taken.partition(" ")
    if kind == "do":
        await desk.press(value)
    elif kind == "type":
        await type_command(desk, f"{value} ")
    elif kind == "open" and (view := desk.view(value)):
        desk.open_run(view, "learn")
    else:
        for preset in desk.presets:
            if kind == "start" and preset.name == value:
                if preset.from_folder:
                    await ask_first(desk, preset)
                else:
                    await launch(desk, await plan(desk, preset, (), None, 1))
