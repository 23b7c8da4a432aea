"""What the trainings came to, kept beside the page: their runs are gone when the page is written again."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from benchmarks.large_batch.answers import Found
from benchmarks.large_batch.arms import ARMS, Learned
from mission_tui.errors import UsageError

__all__ = ["Trained", "keep", "read_kept"]


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """Trainings of `steps` steps each on one `mission` (its digest), by setting in the order of their seeds."""

    steps: int
    mission: str
    settings: dict[str, tuple[Learned, ...]] = {}

    @property
    def found(self) -> Found:
        """By setting; one of which nothing is kept has no training."""
        return {arm: self.settings.get(arm.name, ()) for arm in ARMS}

    def joined(self, found: Found) -> Trained:
        """With the trainings of `found`, each in the place of the one of its setting and seed, if there was one."""
        settings = {}
        for arm in ARMS:
            by_seed = {it.seed: it for it in (*self.found[arm], *found.get(arm, ()))}
            if by_seed:
                settings[arm.name] = tuple(by_seed[seed] for seed in sorted(by_seed))
        return Trained(steps=self.steps, mission=self.mission, settings=settings)


def read_kept(file: Path, steps: int | None, mission: str, usual_steps: int) -> Trained:
    """What the file holds, of the length that it holds where `steps` names none; of another mission it is of no use.

    Raises `UsageError` where it holds trainings of this mission and of another length: they are hours of work.
    """
    found = msgspec.convert(json.loads(file.read_bytes()), Trained) if file.exists() else None
    if found is None or found.mission != mission:
        return Trained(steps=steps or usual_steps, mission=mission)
    if steps not in (None, found.steps):
        raise UsageError(
            f"{file} has trainings of {found.steps:,} steps, which --steps {steps} would replace: "
            f"give --steps {found.steps}, or another --page"
        )
    return found


def keep(trained: Trained, file: Path) -> None:
    """Write the file anew, with Python's own JSON: a KL may be infinite."""
    file.write_text(json.dumps(msgspec.to_builtins(trained), indent=1) + "\n", encoding="utf-8")
