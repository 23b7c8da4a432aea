"""The supervisor's own records, `events.jsonl` of each live run and the journal of the fleet, and who asked for what.

What a person asked for is on disk before it is acknowledged. What the supervisor merely saw is never lost to a full
disk: it is held, in order, and written when the disk takes it again.

Who asks is known only within the answering of a request, and in tasks that it starts; what the supervisor does by
itself has no asker. All clients are processes of the same user, so the words say which program it was, and on which
terminal.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path, PurePath

from msgspec import Struct, structs

from mission_tui import __version__
from mission_tui.fleet.events import journal
from mission_tui.fleet.events.journal import FileDamaged, FleetEvent
from mission_tui.fleet.text import clean
from mission_tui.procfs import read_stat
from mission_tui.records.atomic import Reserve, StorageError
from mission_tui.records.jsonl import AppendLog

log = logging.getLogger(__name__)

PIECE_BYTES = 8 << 10
"""Of the reserve for one event, which may need a new block; more only where others were quicker."""

Make = Callable[[int, float], FleetEvent]


def damaged(file: str, detail: str) -> Make:
    """Makes the event that `file` of the run does not hold what was written there."""
    sentence = clean(detail)
    return lambda seq, t: FileDamaged(seq, t, file, sentence)


class RunJournal:
    """The one writer of a run's `events.jsonl`. `last_seq` is that of the newest event read from it.

    On a full disk `reserve` is given up for the event, piece by piece: rows of the trainings take what is free.
    """

    def __init__(self, path: Path, last_seq: int = 0, reserve: Reserve | None = None) -> None:
        self._path = path
        self._reserve = reserve
        self._log: AppendLog | None = None
        self._last_seq = last_seq
        self._held: list[tuple[Make, float]] = []
        self.why = ""
        """What the disk said to the event that is held first."""

    def open(self) -> str | None:
        """Open the file; a sentence when the last writer was cut off and its half line was set aside."""
        if self._log is not None:
            return None
        try:
            self._log = AppendLog(self._path)
        except StorageError as error:
            log.warning("%s", error)
            return None
        torn = self._log.torn
        return None if torn is None else f"its last {len(torn)} bytes were half a line and were set aside"

    def append(self, make: Make) -> FleetEvent:
        """Write the event that `make(seq, t)` builds. Raises `StorageError` when it is not on disk."""
        self.retry()
        return self._append(make, time.time())

    def append_or_hold(self, make: Make) -> FleetEvent:
        """Write the event, or hold it until the disk takes it."""
        try:
            return self.append(make)
        except StorageError as error:
            if not self._held:
                log.warning("%s", error)
            self.why = str(error)
        self._held.append((make, time.time()))
        return make(self._last_seq + len(self._held), self._held[-1][1])

    def retry(self) -> None:
        """Write what is held. Raises `StorageError` with the rest still held."""
        while self._held:
            self._append(*self._held[0])
            del self._held[0]

    @property
    def holding(self) -> bool:
        return bool(self._held)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _append(self, make: Make, t: float) -> FleetEvent:
        event = None
        while event is None:
            try:
                event = self._write(make, t)
            except StorageError as error:
                if self._reserve is None or not self._reserve.gives_way_to(error, PIECE_BYTES):
                    raise
                log.warning("%s; a piece of the reserve was given up for it", error)
        self._last_seq = event.seq
        return event

    def _write(self, make: Make, t: float) -> FleetEvent:
        if self._log is None:
            self._log = AppendLog(self._path)
        return self._log.append(lambda seq: make(seq, t))


class SupervisorStarted(Struct, frozen=True, tag="supervisor_started", tag_field="kind"):
    """A supervisor took the lock of the runs root."""

    seq: int
    t: float
    pid: int
    version: str


class SupervisorLeft(Struct, frozen=True, tag="supervisor_left", tag_field="kind"):
    """A supervisor let go in order; runs went on."""

    seq: int
    t: float
    pid: int
    why: str


class RunRemoved(Struct, frozen=True, tag="run_removed", tag_field="kind", omit_defaults=True):
    """The directory of a run, or of one checkpoint of it, is gone for good."""

    seq: int
    t: float
    run: str
    checkpoint: str | None = None


class RunTrashed(Struct, frozen=True, tag="run_trashed", tag_field="kind", omit_defaults=True):
    """A person asked for a run, or one checkpoint of it, to go to the trash; whether it went, its place tells."""

    seq: int
    t: float
    run: str
    checkpoint: str | None = None


class RunRestored(Struct, frozen=True, tag="run_restored", tag_field="kind", omit_defaults=True):
    """A person asked for it to come back."""

    seq: int
    t: float
    run: str
    checkpoint: str | None = None


class LeftoverRemoved(Struct, frozen=True, tag="leftover_removed", tag_field="kind"):
    """Something that a dead run had left behind was removed; `what` names it, for a process with pid and command."""

    seq: int
    t: float
    run: str | None
    what: str


class DutyFailed(Struct, frozen=True, tag="duty_failed", tag_field="kind"):
    """Something that the supervisor does for all runs failed, such as a meter; said once for each reason."""

    seq: int
    t: float
    duty: str
    why: str


class DutyDoneAgain(Struct, frozen=True, tag="duty_done", tag_field="kind"):
    """It was done again, after `times` failures."""

    seq: int
    t: float
    duty: str
    times: int


class FleetJournal:
    """`.supervisor/events.jsonl`: what happened to the runs root as a whole."""

    def __init__(self, path: Path) -> None:
        self._log = AppendLog(path)
        self.failed: Callable[[str], None] = lambda _why: None
        """Called with the reason when a line was not written, and with an empty one when one is again."""

    def started(self) -> None:
        self._write(lambda seq, t: SupervisorStarted(seq, t, os.getpid(), __version__))

    def left(self, why: str) -> None:
        self._write(lambda seq, t: SupervisorLeft(seq, t, os.getpid(), why))
        self._log.close()

    def run_removed(self, run: str, checkpoint: str | None = None) -> None:
        self._write(lambda seq, t: RunRemoved(seq, t, run, checkpoint))

    def run_trashed(self, run: str, checkpoint: str | None) -> None:
        self._write(lambda seq, t: RunTrashed(seq, t, run, checkpoint))

    def run_restored(self, run: str, checkpoint: str | None) -> None:
        self._write(lambda seq, t: RunRestored(seq, t, run, checkpoint))

    def leftover_removed(self, run: str | None, what: str) -> None:
        self._write(lambda seq, t: LeftoverRemoved(seq, t, run, what))

    def duty_failed(self, duty: str, why: str) -> None:
        self._write(lambda seq, t: DutyFailed(seq, t, duty, why))

    def duty_done_again(self, duty: str, times: int) -> None:
        self._write(lambda seq, t: DutyDoneAgain(seq, t, duty, times))

    def _write(self, make: Callable[[int, float], Struct]) -> None:
        try:
            self._log.append(lambda seq: make(seq, time.time()))
        except StorageError as error:
            log.warning("%s", error)
            self.failed(str(error))
        else:
            self.failed("")


_WORD_CHARS = 60
_PTS_MAJORS = range(136, 144)
_VERB = re.compile(r"[a-z][a-z-]*")


class _Requester:
    """A client process; looked at when it is first to be named, and never again."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    @cached_property
    def word(self) -> str:
        try:
            command = Path(f"/proc/{self._pid}/cmdline").read_bytes()
            stat = read_stat(self._pid)
        except OSError:
            return ""
        if stat is None:
            return ""
        return word_for(command.decode(errors="replace").rstrip("\0").split("\0"), stat.tty)


_ASKER: ContextVar[_Requester | None] = ContextVar("asker", default=None)


@contextmanager
def requested_by(pid: int) -> Iterator[None]:
    """Within it, process `pid` is who asks."""
    token = _ASKER.set(_Requester(pid))
    try:
        yield
    finally:
        _ASKER.reset(token)


def requester() -> str:
    """Who asks at this moment; empty where no client does, or where it ended before it was first named."""
    known = _ASKER.get()
    return known.word if known is not None else ""


def signed(event: journal.FleetEvent) -> journal.FleetEvent:
    """`event` with who asked for it, if it is one of those that people ask for."""
    match event:
        case (
            journal.Asked()
            | journal.FindingMarked()
            | journal.PriorityAsked()
            | journal.RunLabelled()
            | journal.RunNoted()
            | journal.RunRenamed()
            | journal.SettingsAsked()
            | journal.TrialBegun()
            | journal.TrialClosed()
        ):
            return structs.replace(event, asker=requester())
        case _:
            return event


def word_for(words: Sequence[str], terminal: int) -> str:
    """`screen, pts/3`, `command line, pts/3`, `sweep.py`: of a command line and the number of its terminal."""
    program = _program(words)
    major, minor = terminal >> 8 & 0xFFF, terminal & 0xFF | terminal >> 12 & 0xFFF00
    where = f", pts/{minor + 256 * (major - _PTS_MAJORS[0])}" if major in _PTS_MAJORS else ""
    return clean(program, _WORD_CHARS) + where


def _program(words: Sequence[str]) -> str:
    names = [PurePath(word).name for word in words]
    for at, (word, name) in enumerate(zip(words, names, strict=True)):
        if name in ("mission-tui", "mission_tui") or word.endswith("mission_tui/__main__.py"):
            return _ours(words[at + 1 :])
    if names and names[0].startswith("python") and "-c" not in words:
        return next((name for name in names[1:] if name and not name.startswith("-")), names[0])
    return names[0] if names else ""


_OF_SCREENS = {"replay": "screen", "bridge": "screen elsewhere"}
"""Verbs that a screen stands behind; `bridge` is what the one of another machine calls."""


def _ours(words: Sequence[str]) -> str:
    given = iter(words)
    for word in given:
        if word == "--runs-dir":
            next(given, None)
        elif _VERB.fullmatch(word):
            return _OF_SCREENS.get(word, "command line")
    return "screen"
