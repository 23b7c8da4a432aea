"""Ctrl-O in the form: what stands there becomes a preset of the person's own, and is in the list at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from mission_tui.fleet.specs.preset_file import Saving
from mission_tui.tui.screens.confirm import ConfirmScreen
from mission_tui.tui.screens.line_input import LineInputScreen, typed
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.state.presets import PresetChoice

__all__ = ["save_preset"]

_HELP = (
    "Its name, and after a space the digit that is to launch it, if any. It goes into your own folder of presets, with "
    "the settings as they stand in the form; name, group and number of runs are not part of a preset."
)


async def save_preset(app_context: AppContext, preset: PresetChoice, words: Sequence[str]) -> str | None:
    """Ask for the name, again where it can be none, and before anything is written over; the name of what was saved,
    None where nothing was.
    """
    names: list[str] = []

    async def save(said: str) -> None:
        name, _, key = said.partition(" ")
        saving = Saving(preset.ref or preset.name, name, tuple(words), key.strip() or None)
        saved = await asyncio.to_thread(app_context.save_preset, saving, False)
        if saved.there:
            question, facts = f"Save {name} all the same?", (f"{saved.there}.",)
            if not await app_context.ask_user(ConfirmScreen(question, facts, "save it")):
                return
            saved = await asyncio.to_thread(app_context.save_preset, saving, True)
        await app_context.read_presets()
        app_context.toast(f"{saved.name} is saved as {saved.path}")
        names.append(saved.name)

    await typed(
        app_context,
        partial(LineInputScreen, f"Save {preset.name} with these changes", _HELP, "saves it", "calm 5"),
        save,
    )
    return names[0] if names else None
