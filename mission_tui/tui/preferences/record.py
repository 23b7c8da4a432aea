"""What a person chose about the look of the screen, as a plain table that outlives the session and may come damaged.

The table has only what was chosen. Who gives it in and takes it back keeps it; nothing here reads or writes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mission_tui.tui.plot.hues import MOST
from mission_tui.tui.plot.ruler import Over

__all__ = ["Changes", "Keep", "Preferences", "UnsavedPreferences", "keep_nothing", "preferences_in"]

Changes = Mapping[str, object]
"""By name what was chosen since; None for what is as it comes again."""
Keep = Callable[[Changes], None]

Word = Annotated[str, Meta(max_length=200)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]


class Preferences(msgspec.Struct, frozen=True):
    """Each default is how the screen comes. Sizes are shares, so that a terminal of another size is split alike.

    `panes` None lets the width decide; `strip_s` is how far back the strip goes (seconds); `chart_smoothing` the weight
    of what was before, per update; `shares` are by the name of a split.
    """

    panes: bool | None = None
    sort: Word = "age"
    machine_sort: Word = "age"
    log_folds: bool = True
    redraws_hz: float = 4.0
    strip_s: float = 300.0
    chart_over: Over = "timesteps"
    chart_log: bool = False
    chart_smoothing: Share = 0.0
    chart_kept: Annotated[tuple[Word, ...], Meta(max_length=MOST - 1)] = ()
    bell: bool = True
    shares: dict[str, Share] = {}


def _table(preferences: Preferences) -> dict[str, object]:
    """What differs from how the screen comes."""
    usual, chosen = msgspec.to_builtins(Preferences()), msgspec.to_builtins(preferences)
    return {name: value for name, value in chosen.items() if value != usual[name]}


def preferences_in(table: Mapping[str, object]) -> Preferences:
    """What `table` says; what is unknown or no sensible value is left as it comes."""
    chosen: dict[str, Any] = {}
    for field in msgspec.structs.fields(Preferences):
        if field.name in table:
            with suppress(msgspec.ValidationError):
                chosen[field.name] = msgspec.convert(table[field.name], field.type)
    return Preferences(**chosen)


class UnsavedPreferences:
    """Tells `keep` what was chosen since it was last told, so that two screens at once keep what each of them chose."""

    def __init__(self, found: Preferences, keep: Keep) -> None:
        self._told = _table(found)
        self._keep = keep

    def save(self, preferences: Preferences) -> None:
        """Have what is new in `preferences` kept; may take as long as keeping takes."""
        table = _table(preferences)
        names = self._told.keys() | table.keys()
        changed = {name: table.get(name) for name in names if table.get(name) != self._told.get(name)}
        if changed:
            self._told = table
            self._keep(changed)


def keep_nothing(_changes: Changes) -> None:
    """Forget what was chosen when the session ends."""
