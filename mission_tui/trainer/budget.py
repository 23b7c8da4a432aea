"""How long a run may train, and how far along it is: by environment steps or by seconds, to within one update."""

from __future__ import annotations

from dataclasses import dataclass

from mission_tui.fleet.specs.spec import RunSpec
from mission_tui.trainer.supervised.running_time import unstopped_s

__all__ = ["Budget", "Stopwatch"]


@dataclass(frozen=True, slots=True)
class Budget:
    """Exactly one of the two is set; both count all attempts of the run together."""

    total_timesteps: int | None
    duration_s: float | None

    @classmethod
    def of(cls, run: RunSpec) -> Budget:
        """The budget that `[run]` gives."""
        return cls(run.total_timesteps, run.duration_s)

    def spent(self, timesteps: int, trained_s: float) -> bool:
        """Whether no further update may begin."""
        if self.total_timesteps is not None:
            return timesteps >= self.total_timesteps
        return self.duration_s is not None and trained_s >= self.duration_s

    def progress_remaining(self, timesteps: int, trained_s: float) -> float:
        """What SB3's schedules take: 1 at the start, 0 at the end (slightly below for the update that overshoots)."""
        if self.total_timesteps is not None:
            return 1.0 - float(timesteps) / float(self.total_timesteps)
        return 1.0 if self.duration_s is None else max(0.0, 1.0 - trained_s / self.duration_s)


class Stopwatch:
    """Seconds spent training; neither pauses count nor the time that the process stood frozen."""

    def __init__(self, already_s: float = 0.0) -> None:
        self._before_s = already_s
        self._since: float | None = unstopped_s()

    @property
    def seconds(self) -> float:
        running_s = 0.0 if self._since is None else unstopped_s() - self._since
        return self._before_s + running_s

    def pause(self) -> None:
        """Stop counting."""
        self._before_s, self._since = self.seconds, None

    def go_on(self) -> None:
        """Count again."""
        self._since = unstopped_s()
