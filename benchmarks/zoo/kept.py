"""What was trained in other checkouts and on other processors: kept beside the page, so that it tells that too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.campaign import Done
from benchmarks.zoo.best import Best
from benchmarks.zoo.table import Course, Measured

__all__ = ["keep", "with_kept"]


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One `Measured`; `names` are those of its jobs, which hold a hash of their settings and of versions."""

    task: str
    processor: str
    names: tuple[str, ...]
    done: tuple[Done | None, ...]
    courses: tuple[Course | None, ...]
    best: tuple[Best | None, ...]
    elsewhere: tuple[str, ...] = ()


def with_kept(here: Sequence[Measured], file: Path) -> list[Measured]:
    """What was measured here, and after each task what `file` has of it: of other settings nothing, and of this
    processor only as long as not every seed is done here.
    """
    read = msgspec.json.decode(file.read_bytes(), type=tuple[Kept, ...]) if file.exists() else ()
    together = []
    for own in here:
        names = tuple(job.name for job in own.jobs)
        others = [it for it in read if (it.task, it.names) == (own.task.name, names)]
        elsewhere = [it for it in others if it.processor != own.processor]
        if own.is_whole or (own.means and elsewhere == others) or not others:
            together.append(own)
            others = elsewhere
        together += [_restored(own, it) for it in others]
    return together


def keep(measured: Sequence[Measured], file: Path) -> None:
    """Write all of it of which a seed is done to `file`."""
    kept = [
        Kept(
            task=it.task.name,
            processor=it.processor,
            names=tuple(job.name for job in it.jobs),
            done=it.done,
            courses=it.courses,
            best=it.best,
            elsewhere=it.elsewhere,
        )
        for it in measured
        if it.means
    ]
    file.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")


def _restored(own: Measured, kept: Kept) -> Measured:
    return Measured(
        own.task, own.published, own.jobs, kept.done, kept.courses, kept.best, 0, kept.elsewhere, kept.processor
    )
