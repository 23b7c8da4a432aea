"""Esc and the key behind it, where the two come at once: from quick hands, or in one piece over a slow line.

A terminal sends both as it sends Alt with that key, which is what Textual makes of them: the Esc would be lost, and the
letter would go into the line that it was to close. No key of this screen has Alt, so they are two keys; but Alt with a
digit changes tabs and windows elsewhere, and starts nothing here.

An Esc in what is pasted, as coloured output has it where a program pastes it as it is, is none: Textual takes all that
follows it for keys, up to Enter and to those that start and kill runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from textual._xterm_parser import XTermParser
from textual.events import Key
from textual.message import Message

from mission_tui.fleet.commands import LAUNCH_KEYS

_ESC = "\x1b"
_BEGINNINGS = "[O]P_"
"""With these behind an Esc other keys and what a terminal answers begin, so that more of them is waited for."""
_WORDS = "bf"
"""Option with an arrow moves by a word in terminals of a Mac, and comes as these."""
_PASTE, _PASTED = "\x1b[200~", "\x1b[201~"
_COLOUR = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~])?")
_BEGUN = re.compile(r"\x1b(\[[0-?]*[ -/]*)?$")
"""The beginning of a colour or of `_PASTED`, at the end of what was read."""


class EscapeParser(XTermParser):
    """Textual's (8.2.8) parser of what a terminal sends."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._pasting = False
        self._tail = self._held = ""

    def feed(self, data: str) -> Iterable[Message]:
        """Events of `data`; nothing at all is the end."""
        text = self._pasted_plain(data)
        return super().feed(text) if text or not data else ()

    def _pasted_plain(self, data: str) -> str:
        """`data`, and in what is pasted, which may come in pieces, no Esc but that of its end."""
        given = []
        while data:
            if self._pasting:
                text, end, data = (self._held + data).partition(_PASTED)
                begun = None if end else _BEGUN.search(text)
                self._held = begun[0] if begun else ""
                self._pasting = not end
                given.append(_COLOUR.sub("", text[: begun.start()] if begun else text) + end)
                continue
            seen = self._tail + data
            at = seen.find(_PASTE)
            self._pasting = at >= 0
            cut = at + len(_PASTE) - len(self._tail) if self._pasting else len(data)
            self._tail = "" if self._pasting else seen[1 - len(_PASTE) :]
            given.append(data[:cut])
            data = data[cut:]
        return "".join(given)

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[Key]:
        """The keys of a sequence; with `alt` of what followed an Esc, and nothing came behind it."""
        if alt:
            behind = "" if sequence in "[O" else sequence  # the beginning of a key whose end is lost
        else:
            behind = sequence[1:] if sequence[:1] == _ESC and sequence[1:] not in (*_BEGINNINGS, *_WORDS) else ""
        if len(behind) != 1 or not behind.isprintable():
            yield from super()._sequence_to_key_events(sequence, alt)
            return
        yield Key("escape", _ESC)
        if behind not in LAUNCH_KEYS:
            yield from super()._sequence_to_key_events(behind)
