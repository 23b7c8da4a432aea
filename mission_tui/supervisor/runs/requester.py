"""Who asks: the client of the request that is being answered, in words for the journals.

It is known only within the answering of a request, and in tasks that it starts; what the supervisor does by itself has
no asker. All clients are processes of the same user, so the words say which program it was, and on which terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path, PurePath

from msgspec import structs

from mission_tui.fleet.events import journal
from mission_tui.fleet.text import clean
from mission_tui.procfs import read_stat

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
