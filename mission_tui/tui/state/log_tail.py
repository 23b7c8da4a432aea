"""Of an attempt's output a stretch as lines: its end, which grows while followed, or pages elsewhere; bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from mission_tui.fleet.text import as_left
from mission_tui.ipc.replies import LogReply
from mission_tui.ipc.requests import AnsweredBy, GetLog

Where = Literal["earlier", "later", "beginning", "newest"]
"""Which page is wanted beside the known ones, or instead of them."""

_KEPT_CHARACTERS = 1 << 20
LOG_PAGE_BYTES = 1 << 16
_CUT_BYTES = 3
"""A page ends before a character that would not be whole: that may leave so much between it and the next one."""


class Stretch(Struct, frozen=True):
    """Bytes `start` to `end` of an output of `size` bytes. Its lines are numbered from `first`: a line keeps its number
    while others come before it.
    """

    start: int = 0
    end: int = 0
    size: int = 0
    first: int = 0


class _Page(Struct):
    text: str
    start: int
    end: int


class LogTail:
    """Pages of one attempt's output that follow each other. `lines` are as a terminal would leave them.

    `detached`: what is printed now is not among them, and not asked for.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._pages: list[_Page] = []
        self._size = 0
        self._first = 0
        self.attempt: int | None = None
        self.detached = False
        self.lines: list[str] = []

    @property
    def start(self) -> int:
        """The first byte that is known."""
        return self._pages[0].start if self._pages else 0

    @property
    def end(self) -> int:
        """The byte after the last one that is known."""
        return self._pages[-1].end if self._pages else 0

    @property
    def stretch(self) -> Stretch:
        """Which part of the output the lines are."""
        return Stretch(self.start, self.end, max(self._size, self.end), self._first)

    def later(self) -> Callable[[int], AnsweredBy[LogReply]]:
        """The request for what was written since, or for the last page at first."""
        known = self.attempt is not None
        offset = self.end if known else None
        return lambda id_: GetLog(id=id_, run=self._run, offset=offset, limit=LOG_PAGE_BYTES)

    def page(self, where: Where, limit: int = LOG_PAGE_BYTES) -> Callable[[int], AnsweredBy[LogReply]] | None:
        """The request for another page, of `limit` bytes at most; None where there is none to ask for."""
        offset: int | None
        match where:
            case "earlier":
                offset = max(0, self.start - limit)
                limit = self.start - offset
            case "later":
                offset = self.end
            case "beginning":
                offset = 0
            case "newest":
                offset = None
        wanted = self.start > 0 if where in ("earlier", "beginning") else self.detached
        if self.attempt is None or not wanted:
            return None
        return lambda id_: GetLog(id=id_, run=self._run, offset=offset, limit=limit, attempt=self.attempt)

    def take(self, reply: LogReply) -> bool:
        """Join a page to the others; one of another attempt, of a cut file or from elsewhere starts anew.

        True if lines changed.
        """
        page = _Page(reply.text, reply.start, reply.end)
        self._size = reply.size
        known = bool(self._pages) and reply.attempt == self.attempt
        if known and reply.start == self.end and reply.size >= self.end:
            self.detached = self.detached and reply.end < reply.size
            if not reply.text:
                return False
            self._append(page)
        elif known and reply.start < self.start and 0 <= self.start - reply.end <= _CUT_BYTES:
            self._prepend(page)
        else:
            self._pages, self.attempt, self._first = [page], reply.attempt, 0
            self.detached = reply.end < reply.size
        self.lines = [as_left(line) for line in "".join(page.text for page in self._pages).split("\n")]
        if self.lines and not self.lines[-1]:
            self.lines.pop()
        return True

    def _append(self, page: _Page) -> None:
        """The oldest pages give way."""
        last = self._pages[-1]
        if len(last.text) < LOG_PAGE_BYTES:
            last.text, last.end = last.text + page.text, page.end
        else:
            self._pages.append(page)
        while self._too_much:
            self._first += self._pages.pop(0).text.count("\n")

    def _prepend(self, page: _Page) -> None:
        """The newest pages give way, and then the end is elsewhere."""
        self._first -= page.text.count("\n")
        self._pages.insert(0, page)
        while self._too_much:
            self._pages.pop()
            self.detached = True

    @property
    def _too_much(self) -> bool:
        return len(self._pages) > 1 and sum(len(page.text) for page in self._pages) > _KEPT_CHARACTERS
