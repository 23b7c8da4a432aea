"""Which terminals get which glyphs."""

from __future__ import annotations

import pytest

from mission_tui.tui.drawing.glyphs import draws_unicode, speaks_utf8, to_ascii


@pytest.mark.parametrize(
    ("environ", "utf8"),
    [
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LANG": "C.utf8"}, True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, False),
        ({"LC_ALL": "", "LC_CTYPE": "C.UTF-8", "LANG": "C"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
        ({}, False),
    ],
)
def test_the_locale_variables_decide_in_their_order(environ: dict[str, str], utf8: bool) -> None:
    """LC_ALL before LC_CTYPE before LANG; an empty one says nothing."""
    assert speaks_utf8(environ) is utf8


def test_glyphs_have_stand_ins_of_the_same_width() -> None:
    """Frames, bars, sparklines, the chart's dots; anything else is a question mark per cell."""
    assert to_ascii("┌─ ━━╸── ▁▄█ ▲ ✗ ⣀⠛⣿⠀ é 日") == "+- ==>-- _-# ! x .':  ? ??"
    # Of a run in health, with information: a question mark would put that in doubt.
    assert to_ascii("ok ·") == "ok ."


@pytest.mark.parametrize(("kind", "drawn"), [("linux", False), ("xterm", True), ("screen-256color", True)])
def test_the_console_of_the_kernel_is_drawn_in_plain_letters(kind: str, drawn: bool) -> None:
    """It speaks UTF-8 and has no glyph for dots, sparks and most shapes: they would be blank squares."""
    assert draws_unicode({"LANG": "C.UTF-8", "TERM": kind}) is drawn
