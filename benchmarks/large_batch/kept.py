"""What the trainings came to, kept beside the page: their runs are gone when the page is written again."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from benchmarks.large_batch.answers import Found
from benchmarks.large_batch.arms import ARMS, Learned

__all__ = ["Trained", "keep", "read_kept"]


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """Trainings of `steps` steps each, by the name of their setting in the order of their seeds."""

    steps: int
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
        return Trained(steps=self.steps, settings=settings)


def read_kept(file: Path) -> Trained | None:
    """What the file holds; None where there is none."""
    return msgspec.convert(json.loads(file.read_bytes()), Trained) if file.exists() else None


def keep(trained: Trained, file: Path) -> None:
    """Write the file anew, with Python's own JSON: a KL may be infinite."""
    file.write_text(json.dumps(msgspec.to_builtins(trained), indent=1) + "\n", encoding="utf-8")
