"""Taking in a runs root: in which order its runs are read, how much of each, and what one that cannot be read costs.

Live runs come first, then ended ones, the last to end first: the newest with what a list shows of them, most others by
name and end alone. Runs with long journals come last. The supervisor and the read-only server take runs in alike.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Protocol

from mission_tui.fleet.events.journal import AttemptEnded, FleetEvent, RunCreated
from mission_tui.fleet.store import SNAPSHOT_ENDED, Store
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.runs.run_on_disk import (
    LAST_BYTES,
    SPARKLINE_BYTES,
    RunOnDisk,
    journal_bytes,
    parted,
    read_short_summary,
    reading_run,
    why_unreadable,
)

SHORT_BYTES = 1 << 20
"""Of a journal that is read with the others; longer ones come last."""

MANY_EVENTS = 500
"""Taken in at one go: some milliseconds."""


class Intake(Protocol):
    """Keeps what is read. `waiting` are the ended runs of which only name and end are known."""

    @property
    def store(self) -> Store: ...
    @property
    def waiting(self) -> dict[str, None]: ...
    @property
    def most_s(self) -> float:
        """How long one run may be read before it is given up."""

    def adopting(self, found: RunOnDisk) -> Iterator[None]:
        """Take in a run that has not ended."""

    def loading(self, found: RunOnDisk, newest_bytes: int) -> Iterator[None]:
        """Take in an ended run by its events and the last `newest_bytes` of its metrics."""

    def show_damaged(self, run: RunDir, why: str, error: Exception | None = None) -> None:
        """Keep of a run only that it cannot be read, and why."""

    def directory_read(self) -> None:
        """One more of the directories is known."""


def taking_in(intake: Intake, runs: Sequence[RunDir]) -> Iterator[None]:
    """Take in `runs`, in steps of some milliseconds each."""
    glimpsed: list[RunOnDisk] = []
    long: list[RunDir] = []
    for run in runs:
        found = read_short_summary(run)
        if found is None and journal_bytes(run) > SHORT_BYTES:
            long.append(run)
        else:
            glimpsed.append(found if found is not None else (yield from reading_run(run)))
        yield
    live, ended = parted(glimpsed)
    for found in live:
        yield from _guarded(intake, found.dir, intake.adopting(found))
    for place, found in enumerate(ended):
        if place < SNAPSHOT_ENDED or found.whole:
            newest_bytes = SPARKLINE_BYTES if place < SNAPSHOT_ENDED else LAST_BYTES
            yield from _guarded(intake, found.dir, intake.loading(found, newest_bytes))
            continue
        made, over = found.events
        if isinstance(made, RunCreated) and isinstance(over, AttemptEnded):
            intake.store.add_ended(found.dir.id, str(found.dir.path), made, over)
            intake.waiting[found.dir.id] = None
        intake.directory_read()
        yield
    for run in sorted(long, key=journal_bytes):
        yield from taking_one(intake, run)


def taking_one(intake: Intake, run: RunDir) -> Iterator[None]:
    """Take in one run, whatever its state."""
    yield from _guarded(intake, run, _reading_and_taking(intake, run))


def _reading_and_taking(intake: Intake, run: RunDir) -> Iterator[None]:
    found = yield from reading_run(run)
    yield from intake.adopting(found) if found.ended_t is None else intake.loading(found, SPARKLINE_BYTES)


def _guarded(intake: Intake, run: RunDir, work: Iterator[None]) -> Iterator[None]:
    """`work` on one run, step by step; whatever it raises, and whatever has no end, makes that run a damaged row."""
    spent_s = 0.0
    try:
        with intake.store.half_read(run.id):
            while True:
                begun = time.monotonic()
                try:
                    next(work)
                except StopIteration:
                    break
                spent_s += time.monotonic() - begun
                if spent_s > intake.most_s:
                    intake.show_damaged(run, f"reading it took more than {intake.most_s:g} s")
                    break
                yield
    except Exception as error:  # noqa: BLE001 - whatever lies in a directory costs this one run
        intake.show_damaged(run, why_unreadable(error), error)
    intake.directory_read()
    yield


def applying(store: Store, run_id: str, events: Sequence[FleetEvent]) -> Iterator[None]:
    """Apply the events of a run, some at a time."""
    for start in range(0, len(events), MANY_EVENTS):
        store.apply_all(run_id, events[start : start + MANY_EVENTS])
        if start:
            yield


def finish(work: Iterator[None]) -> None:
    """Do all steps at once."""
    for _ in work:
        pass
