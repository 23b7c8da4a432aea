"""What callbacks log with SB3's logger, gathered for the row of the update in which they logged it.

The trainer's own figures win over a callback's of the same name. SB3's clock readings are left out: a row has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stable_baselines3.common.logger import KVWriter, Logger

from mission_tui.fleet.events.metrics import plain
from mission_tui.trainer.failures import complain

__all__ = ["RowLog"]

_CLOCK = frozenset({"time/iterations", "time/fps", "time/time_elapsed", "time/total_timesteps"})
_SHOWN = "train/"
"""SB3 leaves the figures of an update with its logger until the next rollout is over."""


class RowLog(KVWriter):
    """The only output of `logger`."""

    def __init__(self) -> None:
        self.logger = Logger(None, [self])
        self._dumped: dict[str, Any] = {}
        self._shown: frozenset[str] = frozenset()

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Take what somebody dumped."""
        self._dumped |= key_values

    def close(self) -> None:
        """Nothing is open."""

    def take(self) -> dict[str, Any]:
        """What was logged since the last time."""
        logged = self._dumped | self.logger.name_to_value
        self._dumped = {}
        for kept in (self.logger.name_to_value, self.logger.name_to_count, self.logger.name_to_excluded):
            kept.clear()
        return {name: value for name, value in logged.items() if name not in _CLOCK and name not in self._shown}

    def report_rest(self) -> None:
        """Say in the attempt's log what no row will have: it was logged in a rollout that was broken off, or later."""
        rest = {name: plain(value) for name, value in self.take().items()}
        said = ", ".join(f"{name} = {value:g}" for name, value in rest.items() if value is not None)
        if said:
            complain(f"logged by callbacks after the last update, so in no row: {said}")

    def show(self, metrics: Mapping[str, Any]) -> None:
        """Let callbacks find the figures of the update where SB3 leaves them."""
        shown = {name: value for name, value in metrics.items() if name.startswith(_SHOWN)}
        self._shown = frozenset(shown)
        self.logger.name_to_value.update(shown)
