"""What was trained in other checkouts and on other processors, and what published agents came to: kept beside the page,
so that it tells that too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.campaign import Done
from benchmarks.zoo.agents_table import Agent
from benchmarks.zoo.best import Best
from benchmarks.zoo.table import Course, Measured

__all__ = ["keep", "keep_agents", "kept_agents", "kept_seeds", "kept_tasks", "with_kept"]


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One `Measured`; `names` are those of its jobs, which hold a hash of their settings and of versions."""

    task: str
    processor: str
    names: tuple[str, ...]
    done: tuple[Done | None, ...]
    courses: tuple[Course | None, ...]
    best: tuple[Best | None, ...]
    elsewhere: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file; up to November 2026 it held the tasks alone, as a list."""

    tasks: tuple[Kept, ...] = ()
    agents: tuple[Agent, ...] = ()


def _read(file: Path) -> _File:
    if not file.exists():
        return _File()
    raw = file.read_bytes()
    if raw.lstrip().startswith(b"["):
        return _File(tasks=msgspec.json.decode(raw, type=tuple[Kept, ...]))
    return msgspec.json.decode(raw, type=_File)


def _write(file: Path, all_of_it: _File) -> None:
    file.write_bytes(msgspec.json.format(msgspec.json.encode(all_of_it), indent=1) + b"\n")


def kept_tasks(file: Path) -> tuple[Kept, ...]:
    """What was trained, as `file` tells it."""
    return _read(file).tasks


def kept_agents(file: Path) -> tuple[Agent, ...]:
    """The published agents that `file` tells of."""
    return _read(file).agents


def keep_agents(agents: Sequence[Agent], file: Path) -> None:
    """Put `agents` in place of those in `file`, whose tasks stay."""
    _write(file, msgspec.structs.replace(_read(file), agents=tuple(agents)))


def kept_seeds(file: Path, processor: str) -> dict[str, tuple[Done, Course | None, Best | None]]:
    """Of every job that was done on `processor` what `file` has of it, by the job's name: settings and versions are in
    that, so it need not be done again.
    """
    found: dict[str, tuple[Done, Course | None, Best | None]] = {}
    for it in _read(file).tasks:
        courses, best = it.courses or (None,) * len(it.done), it.best or (None,) * len(it.done)
        for name, done, course, one in zip(it.names, it.done, courses, best, strict=True):
            if it.processor == processor and done is not None:
                found[name] = done, course, one
    return found


def with_kept(here: Sequence[Measured], file: Path) -> list[Measured]:
    """What was measured here, and after each task what `file` has of it: of other settings nothing, and of this
    processor only as long as not every seed is done here.
    """
    read = _read(file).tasks
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
    """Write all of it of which a seed is done to `file`, whose agents stay."""
    kept = tuple(
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
    )
    _write(file, msgspec.structs.replace(_read(file), tasks=kept))


def _restored(own: Measured, kept: Kept) -> Measured:
    return Measured(
        own.task, own.published, own.jobs, kept.done, kept.courses, kept.best, 0, kept.elsewhere, kept.processor
    )
