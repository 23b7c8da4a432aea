"""The end of an attempt's output as lines: grows at the end while followed, at the front on request, and is bounded."""

from __future__ import annotations

from collections.abc import Callable

from mission_tui.ipc.replies import LogReply
from mission_tui.ipc.request import Asking
from mission_tui.ipc.requests import GetLog

__all__ = ["LogTail"]

_KEPT_CHARACTERS = 1 << 20
_PAGE_BYTES = 1 << 16


class LogTail:
    """Text from byte `start` to byte `end` of one attempt's output file. `lines` are as a terminal would leave them."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._text = ""
        self.attempt: int | None = None
        self.start = 0
        self.end = 0
        self.lines: list[str] = []

    def later(self) -> Callable[[int], Asking[LogReply]]:
        """The request for what was written since, or for the last page at first."""
        known = self.attempt is not None
        offset = self.end if known else None
        return lambda id_: GetLog(id=id_, run=self._run, offset=offset, limit=_PAGE_BYTES)

    def earlier(self) -> Callable[[int], Asking[LogReply]] | None:
        """The request for the page before, None at the beginning of the file."""
        if self.attempt is None or self.start == 0:
            return None
        offset = max(0, self.start - _PAGE_BYTES)
        limit = self.start - offset
        return lambda id_: GetLog(id=id_, run=self._run, offset=offset, limit=limit, attempt=self.attempt)

    def take(self, reply: LogReply) -> bool:
        """Join a page to the text; one of another attempt or of a cut file starts anew. True if lines changed."""
        if reply.attempt == self.attempt and reply.start == self.end and reply.size >= self.end:
            if not reply.text:
                return False
            self._text += reply.text
            self.end = reply.end
            self._bound()
        elif reply.attempt == self.attempt and reply.end == self.start and reply.start < self.start:
            self._text = reply.text + self._text
            self.start = reply.start
        else:
            self._text, self.attempt, self.start, self.end = reply.text, reply.attempt, reply.start, reply.end
        self.lines = [_final(line) for line in self._text.split("\n")]
        if self.lines and not self.lines[-1]:
            self.lines.pop()
        return True

    def _bound(self) -> None:
        """Drop the oldest whole lines; `start` then only tells that there is more before."""
        excess = len(self._text) - _KEPT_CHARACTERS
        if excess > 0:
            cut = self._text.find("\n", excess) + 1 or excess
            self.start += len(self._text[:cut].encode())
            self._text = self._text[cut:]


def _final(line: str) -> str:
    """What is left of a line that was overwritten by carriage returns, as progress bars do."""
    return line.rstrip("\r").rsplit("\r", 1)[-1]
