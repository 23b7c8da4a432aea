"""How a change of settings under a training run is told. Clients read it without the table of settings. Pure."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["SettingChange"]


class SettingChange(Struct, frozen=True):
    """What was set while the run trained: `diff` has a line per setting.

    Updates after `update`, at `timesteps` of the curve, train with it; both are None while it waits for the boundary.
    """

    diff: tuple[str, ...]
    update: int | None = None
    timesteps: int | None = None

    @property
    def sentence(self) -> str:
        """What was set, and since when."""
        what = ", ".join(self.diff)
        return (
            f"to be set at the next update: {what}"
            if self.update is None
            else f"set after update {self.update:,}: {what}"
        )
