"""Esc and the key behind it, where the two come at once: from quick hands, or in one piece over a slow line.

A terminal sends both as it sends Alt with that key, which is what Textual makes of them: the Esc would be lost, and the
letter would go into the line that it was to close. No key of this screen has Alt, so they are two keys; but Alt with a
digit changes tabs and windows elsewhere, and starts nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual._xterm_parser import XTermParser
from textual.events import Key

from mission_tui.fleet.commands import LAUNCH_KEYS

_ESC = "\x1b"
_BEGINNINGS = "[O]P_"
"""With these behind an Esc other keys and what a terminal answers begin, so that more of them is waited for."""
_WORDS = "bf"
"""Option with an arrow moves by a word in terminals of a Mac, and comes as these."""


class EscapeParser(XTermParser):
    """Textual's (8.2.8) parser of what a terminal sends."""

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[Key]:
        """The keys of a sequence; with `alt` of what followed an Esc, and nothing came behind it."""
        if alt:
            behind = "" if sequence in "[O" else sequence  # the beginning of a key whose end is lost
        else:
            behind = sequence[1:] if sequence[0] == _ESC and sequence[1:] not in (*_BEGINNINGS, *_WORDS) else ""
        if len(behind) != 1 or not behind.isprintable():
            yield from super()._sequence_to_key_events(sequence, alt)
            return
        yield Key("escape", _ESC)
        if behind not in LAUNCH_KEYS:
            yield from super()._sequence_to_key_events(behind)
