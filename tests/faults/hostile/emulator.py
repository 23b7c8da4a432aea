"""A terminal beside a staged screen, and what it was sent that is no colour and no position."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import pyte
from textual.strip import Strip

from mission_tui.tui.textual_fixes.cell_diff import CellDiff, Pen
from tests.tui.stage import Stage

__all__ = ["Emulator", "hidden"]

SENT = re.compile(r"\x1b\[[0-9;:]*[mH]")
"""Colours and positions: all that a picture needs."""


def hidden(text: str) -> list[str]:
    """The controls, format characters and halves of characters in `text`."""
    return [] if text.isascii() and text.isprintable() else [char for char in text if _category(char) in _HIDDEN]


_HIDDEN = ("Cc", "Cf", "Cs")
_category = unicodedata.category


class Emulator(pyte.Screen):
    """Takes what a staged screen sends, as its terminal would; `wrong` is what should not have come.

    Every change is searched for what is no colour and no position; the whole picture is drawn as well, once a round,
    because that takes long.
    """

    def __init__(self, stage: Stage, size: tuple[int, int]) -> None:
        self.bells = 0
        super().__init__(*size)
        self.wrong: list[str] = []
        self._before = self._state()
        self._stage, self._pen = stage, Pen(stage.app.console)
        self._stream = pyte.Stream(self)

        def take(_screen: object, update: Any) -> None:
            if update is not None:
                self._sent(update)

        setattr(stage.app, "_display", take)  # noqa: B010 - a spy

    def bell(self, *_: Any) -> None:
        self.bells += 1

    def repaint(self) -> None:
        """The whole picture."""
        self._stream.feed(self._sent(self._stage.screen._compositor.render_update(full=True)))
        if self._state() != self._before:
            self.wrong.append(f"the terminal's state was {self._before}, and is {self._state()}")
            self._before = self._state()

    def harm(self, painted: list[Strip]) -> Iterator[str]:
        """What is wrong with the picture, and with what was sent since the last look."""
        for strip in painted:
            if bad := hidden(strip.text):
                yield f"{bad!r} is painted in {strip.text!r}"
        yield from self.wrong
        self.wrong.clear()

    def _sent(self, update: Any) -> str:
        sent = CellDiff(update, self._pen).render_segments(self._stage.app.console)
        if rest := hidden(SENT.sub("", sent)):
            self.wrong.append(f"{rest[:5]!r} is sent to the terminal")
        return sent

    def _state(self) -> tuple[object, ...]:
        kept = self.title, self.icon_name, frozenset(self.mode), self.charset, self.margins
        return *kept, self.cursor.hidden, self.bells
