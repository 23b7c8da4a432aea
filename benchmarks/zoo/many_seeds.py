"""How many of many seeds of a task ended below the bound elsewhere: in the trainings of `benchmarks.learning`.

Five seeds cannot tell one seed in five from one in fifty.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.campaign import Job

__all__ = ["ManySeeds", "many_seeds"]

NAMES = {"fast": "the default engine", "stock": "the engine `stock`", "sb3": "SB3's own PPO"}


@dataclass(frozen=True, slots=True)
class ManySeeds:
    """The mean return of each seed's final policy, by seed, as `engine` trained them without a supervisor."""

    engine: str
    means: dict[int, float]

    def said(self, bound: float) -> str:
        """How many of them ended below `bound`, and which."""
        below = [f"seed {seed}: {mean:.1f}" for seed, mean in sorted(self.means.items()) if mean < bound]
        which = f" ({', '.join(below)})" if below else ""
        return f"by {NAMES.get(self.engine, self.engine)} {len(below)} of {len(self.means)} seeds{which}"


class _Run(msgspec.Struct, frozen=True):
    seed: int | None = None
    total_timesteps: int | None = None


class _Spec(msgspec.Struct, frozen=True):
    preset: str
    run: _Run


class _Learned(msgspec.Struct, frozen=True):
    engine: str
    spec: _Spec
    returns: list[float]


def many_seeds(folder: Path, job: Job, more_than: int) -> Sequence[ManySeeds]:
    """What `folder` holds of trainings like `job`, by engine, where there are more than so many seeds of one."""
    found: dict[str, dict[int, float]] = {}
    files = sorted(folder.glob(f"{job.preset}-*-s*.json"), key=lambda file: file.stat().st_mtime)
    for file in files:
        learned = msgspec.json.decode(file.read_bytes(), type=_Learned)
        run = learned.spec.run
        same = (learned.spec.preset, run.total_timesteps) == (job.preset, job.spec.run.total_timesteps)
        if same and run.seed is not None and learned.returns:
            found.setdefault(learned.engine, {})[run.seed] = statistics.fmean(learned.returns)
    return [ManySeeds(engine, means) for engine, means in sorted(found.items()) if len(means) > more_than]
