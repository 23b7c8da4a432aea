"""Where a run, or its newest attempt, comes from: which checkpoint of which run, what was changed on the way, and what
was set while it trained.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from mission_tui.fleet.events.outcome import After
from mission_tui.fleet.text import clean

if TYPE_CHECKING:
    from mission_tui.fleet.resume.verdict import Change

__all__ = ["IMPORTED", "Origin", "SettingChange", "diff_of"]

DIFF_CHARS = 60
IMPORTED = "imported; it was not trained here"
"""The cause with which an imported run has ended."""


class Origin(Struct, frozen=True, omit_defaults=True):
    """`kind` "branch": a run of its own that began with weights of `checkpoint` of `run`, which bore `name` then.

    "resumed": the newest attempt goes on from `checkpoint` of its own run. "imported": the run began as the file
    or folder `name`, and `run` is empty. "cloned": a run of its own with the settings of `run` that has learned nothing
    from it. `diff` is a line per changed setting. `after` says what an attempt that nobody asked for follows.
    """

    kind: Literal["branch", "resumed", "imported", "cloned"]
    run: str
    name: str
    checkpoint: str = ""
    diff: tuple[str, ...] = ()
    after: After | None = None

    @property
    def sentence(self) -> str:
        """The "from" line."""
        if self.kind == "imported":
            return f"imported from {self.name}" + (f" as {self.checkpoint}" if self.checkpoint else "")
        changed = ", ".join(self.diff) or "nothing changed"
        if self.kind == "branch":
            return f"branch: weights from {self.name} at {self.checkpoint}; {changed}"
        if self.kind == "cloned":
            return f"cloned from {self.name}; {changed}"
        by_itself = {None: "", "failure": " by itself after a failure", "reboot": " by itself after a reboot"}
        return f"resumed{by_itself[self.after]} from {self.checkpoint}; {changed}"


def diff_of(changes: Iterable[Change]) -> tuple[str, ...]:
    """What changed, as short as it can be said; a setting that was judged but is the same is left out."""
    return tuple(
        clean(f"{change.name} {change.was} → {change.now}", DIFF_CHARS)
        for change in changes
        if change.was != change.now
    )


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
