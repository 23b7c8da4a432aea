"""A regular expression that a person typed, with a timeout. Some never end on a line of forty letters, and a screen
that searches takes no key meanwhile: one that takes too long is given up, and from then on it matches everything.
"""

from __future__ import annotations

import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TypeVar

MACHINE = "host:"
_LONGEST_S = 0.3
"""Of the processor, for all texts of one look."""

Found = TypeVar("Found")


class NoExpressionError(Exception):
    """What was typed is no regular expression, or not yet; the message is what is wrong with it, in a few words."""


class FilterPattern:
    """Upper and lower case are the same; `words` is what was typed. Raises `NoExpressionError`. `host:gpu1` at their
    beginning is no part of the expression: it names a `machine`.

    `too_slow` is called, once, when searching for it was given up.
    """

    def __init__(self, words: str, too_slow: Callable[[], object] = lambda: None) -> None:
        self.words = words
        named, _, rest = words.partition(" ")
        self.machine = named.removeprefix(MACHINE) if named.startswith(MACHINE) else ""
        self._pattern = _compiled(rest.strip() if named.startswith(MACHINE) else words)
        self._too_slow = too_slow
        self._given_up = False

    def among(self, texts: Iterable[str]) -> list[bool]:
        """Of each text, whether it is found there."""
        texts = list(texts)
        found = self._bounded(lambda: [self._pattern.search(text) is not None for text in texts])
        return [True] * len(texts) if found is None else found

    def spans(self, texts: Iterable[str]) -> list[list[tuple[int, int]]]:
        """Where in each text it is found, from and up to which letter; places without a letter are none."""
        texts = list(texts)
        found = self._bounded(lambda: [[it.span() for it in self._pattern.finditer(text)] for text in texts])
        return [[(start, end) for start, end in places if start < end] for places in found or [[] for _ in texts]]

    def _bounded(self, search: Callable[[], Found]) -> Found | None:
        """What `search` gives; None if it took too long, now or before."""
        if self._given_up:
            return None
        found = _within(_LONGEST_S, search)
        if found is None:
            self._given_up = True
            self._too_slow()
        return found


def _compiled(words: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            # A warning about a later Python helps no one who searches for a run.
            warnings.simplefilter("ignore")
            return re.compile(words, re.IGNORECASE)
    except re.error as error:
        raise NoExpressionError(error.msg.partition(",")[0]) from error
    except (OverflowError, RecursionError) as error:
        raise NoExpressionError("it is too large") from error


class _TookTooLongError(Exception):
    pass


_armed = False


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    # Python's engine looks for signals now and then, which is the only thing that ends a search from outside.
    if _armed:
        raise _TookTooLongError


def _within(seconds: float, search: Callable[[], Found]) -> Found | None:
    """What `search` gives, if that takes no longer; only the main thread can be interrupted."""
    global _armed  # noqa: PLW0603 - there is one timer, and one thread that may use it
    if threading.current_thread() is not threading.main_thread():
        return search()
    signal.signal(signal.SIGVTALRM, _interrupt)
    try:
        _armed = True
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        found: Found | None = search()
        _armed = False
    except _TookTooLongError:
        found = None
    finally:
        _armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return found
