"""What was set while a run trained: taken over by its trainer, or still waiting for its next update boundary."""

from __future__ import annotations

from mission_tui.fleet.events.journal import SettingsAsked
from mission_tui.fleet.events.lineage import diff_of
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.setting_change import SettingChange
from mission_tui.fleet.text import clean

__all__ = ["not_taken", "setting_changes"]

MOST = 16
"""Lines of a change that are shown: one for each setting that can be changed, and some."""


def setting_changes(run: RunHistory) -> tuple[SettingChange, ...]:
    """Those in effect, oldest first, over all attempts; then those that wait."""
    taken = [SettingChange(_cleaned(each.diff), each.update, each.timesteps) for each in run.metrics.sets]
    waiting = [] if run.journal.outcome is not None else not_taken(run)
    return (*taken, *(SettingChange(diff_of(each.changes)) for each in waiting))


def _cleaned(diff: tuple[str, ...]) -> tuple[str, ...]:
    """A trainer may be anybody's, and so may be what it writes."""
    return tuple(clean(line) for line in diff[:MOST])


def not_taken(run: RunHistory) -> list[SettingsAsked]:
    """What was asked of the attempt that its trainer has not taken over yet."""
    taken = max((each.number for each in run.metrics.sets), default=0)
    return [each for each in run.journal.sets if each.seq > taken]
