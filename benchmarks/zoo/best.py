"""The best checkpoint that a finished run kept, played as its final policy was: shown beside it, and never judged.

It is chosen by the run's own returns in training, among what retention left: who trains again cannot count on it.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.campaign import RUNS, Done, Job, alone, put, read_done, tell
from benchmarks.fleet.lab import Lab, kept
from mission_tui.records.runs.checkpoint import list_checkpoints

__all__ = ["Best", "best_of", "play", "play_best", "unplayed"]


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """What the best checkpoint kept of a finished job came to: the document that `evaluate` printed of it."""

    name: str
    evaluation: dict[str, Any]


def best_of(folder: Path, job: Job) -> Best | None:
    """What `folder` holds of it; None where it was not played."""
    file = _file(folder, job)
    return msgspec.json.decode(file.read_bytes(), type=Best) if file.exists() else None


def play_best(folder: Path, jobs: Sequence[Job], seconds: float) -> dict[str, str]:
    """Play what is `unplayed`, for so long; why, by name, for each that was given up.

    Raises `UsageError` while a campaign is at work there.
    """
    deadline = time.monotonic() + seconds
    left = unplayed(folder, jobs)
    failures: dict[str, str] = {}
    if not left:
        return failures
    with alone(folder), kept(folder / RUNS) as lab:
        for job, done in left:
            if time.monotonic() >= deadline:
                tell("time is over before every best checkpoint is played; the same command goes on")
                break
            try:
                play(lab, folder, job, done)
            except subprocess.CalledProcessError as error:
                failures[job.name] = f"`evaluate --checkpoint best` refused with exit code {error.returncode}"
    return failures


def unplayed(folder: Path, jobs: Sequence[Job]) -> list[tuple[Job, Done]]:
    """The jobs that are done, kept more than their last checkpoint, and whose best one was not played yet."""
    known = [(job, done) for job in jobs if (done := read_done(folder, job)) is not None]
    return [(job, done) for job, done in known if best_of(folder, job) is None and _kept(folder, done) > 1]


def play(lab: Lab, folder: Path, job: Job, done: Done) -> None:
    """Play the best checkpoint of one job, and keep what came of it. Raises `CalledProcessError`."""
    found = lab.cli("evaluate", done.run, "--checkpoint", "best", "--episodes", str(job.episodes))
    put(_file(folder, job), Best(name=job.name, evaluation=found))
    tell(f"{job.name}: best checkpoint {found['checkpoint']}, return {float(found['mean']):.1f}")


def _kept(folder: Path, done: Done) -> int:
    """How many checkpoints its run still has; 0 where the run is gone."""
    return len(list_checkpoints(Lab(folder / RUNS, {}).dir(done.run).checkpoints))


def _file(folder: Path, job: Job) -> Path:
    return folder / f"{job.name}.best.json"
