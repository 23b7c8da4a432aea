"""Run directories that somebody puts into the runs root, or takes out of it, while its supervisor lives: known some
seconds later.

A copy grows while it is made, so a directory is taken in once nothing of it has changed between two looks. What is
foreign or has ended is taken in; a run of our own that has not would be begun or watched, and waits for the next
supervisor. An ended run whose directory somebody removed or moved away is known no more, once two looks have missed it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from pathlib import Path

from mission_tui.records.runs.layout import RunDir, run_dirs
from mission_tui.records.runs.seal import Seals
from mission_tui.supervisor.host.tasks import task_about
from mission_tui.supervisor.lifecycle.adoption import taking_in_more
from mission_tui.supervisor.runs import run_on_disk
from mission_tui.supervisor.runs.core import Core

RECENT_S = 5.0
"""File systems count the time of a folder in steps of up to two seconds: it may change once more and look the same."""
SLICE_S = 0.015
"""How long taking runs in keeps the loop before others have their turn."""
MOST_ENTRIES = 4096
"""Of one directory that are looked at; larger ones count by those."""

log = logging.getLogger(__name__)


class Arrivals:
    """Looks into the runs root where its own time has changed, at most one look at a time."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._listed_at: int | None = None
        self._growing: dict[str, int] = {}
        self._left: set[str] = set()
        self._missed: set[str] = set()
        self._looking: asyncio.Task[None] | None = None

    def poll(self) -> None:
        """To be called every ten seconds or so; before all runs of the start are known, others cannot be told."""
        if not self._core.reading.whole.is_set():
            return
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="arrivals")
            self._core.duties.follow("search for new run directories", self._looking)

    async def _look(self) -> None:
        try:
            changed_at = (await asyncio.to_thread(self._core.root.stat)).st_mtime_ns
        except FileNotFoundError:
            return  # the screen says that the runs root is gone
        if changed_at == self._listed_at and not self._growing and not self._missed:
            return
        listed = await asyncio.to_thread(lambda: list(run_dirs(self._core.root)))
        self._forget_gone({run.id for run in listed})
        new = [run for run in listed if run.id not in self._core.store and run.id not in self._left]
        settled = await asyncio.to_thread(self._settled, new)
        fits = await asyncio.to_thread(lambda: {run.id for run in settled if _may_be_shown(self._core.seals, run)})
        for run in settled:
            if run.id not in fits:
                self._left.add(run.id)
                log.warning("%s is a run of ours that has not ended: the next supervisor takes it in", run.id)
        taken = [run for run in settled if run.id in fits]
        if taken:
            await self._take_in(taken)
        recent = abs(time.time() - changed_at / 1e9) < RECENT_S
        self._listed_at = None if recent else changed_at

    def _forget_gone(self, listed: Set[str]) -> None:
        core, live = self._core, {*self._core.live, *self._core.store.live_ids()}
        gone = {it for it in core.store.run_ids() if it not in listed and it not in live and _is_gone(core, it)}
        for run_id in gone & self._missed:
            log.warning("%s is known no more: its directory was removed or moved away", run_id)
            if (journal := core.unwritten.pop(run_id, None)) is not None:
                journal.close()
            core.forget(run_id)
        self._missed = gone - self._missed

    async def _take_in(self, runs: Sequence[RunDir]) -> None:
        rested_at = time.monotonic()
        for _ in taking_in_more(self._core, [run for run in runs if run.id not in self._core.store]):
            if time.monotonic() - rested_at > SLICE_S:
                await asyncio.sleep(0)
                rested_at = time.monotonic()
        log.info("took in %d run directories that were put into the runs root", len(runs))
        self._core.changed.set()

    def _settled(self, new: Sequence[RunDir]) -> list[RunDir]:
        """Those of which nothing has changed since the last look."""
        before, self._growing = self._growing, {run.id: _state_of(run.path) for run in new}
        settled = [run for run in new if self._growing[run.id] == before.get(run.id)]
        for run in settled:
            del self._growing[run.id]
        return settled


def _is_gone(core: Core, run_id: str) -> bool:
    """Whether nothing has the name of its directory, and nothing is being done with it."""
    return task_about(run_id) is None and not os.path.lexists(core.run_dir(run_id).path)


def _may_be_shown(seals: Seals, run: RunDir) -> bool:
    """Whether nothing begins or is watched if the run is taken in; what cannot be read is a damaged row."""
    try:
        found = run_on_disk.read_summary(run)
        return found.ended_t is not None or bool(seals.check(run, run_on_disk.newest_attempt(found)).foreign)
    except Exception:  # noqa: BLE001 - whatever lies in a directory costs this one run
        return True


def _state_of(folder: Path) -> int:
    """The hash of sizes and times of everything in `folder`, as far as `MOST_ENTRIES` go."""
    facts: list[tuple[str, int, int]] = []
    for entry in _entries(folder):
        with suppress(OSError):
            found = entry.stat(follow_symlinks=False)
            facts.append((entry.path, found.st_size, found.st_mtime_ns))
        if len(facts) >= MOST_ENTRIES:
            break
    return hash(tuple(facts))


def _entries(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda it: it.name):
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path)
