"""Esc and the key behind it, as a terminal sends them in one piece."""

from __future__ import annotations

import pytest
from textual.events import Key, Paste

from mission_tui.tui.textual_fixes.escape_key import EscapeParser


def keys_of(data: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What `data` is once nothing more has come for a while."""
    now = 0.0
    monkeypatch.setattr("textual._parser.get_time", lambda: now)
    parser = EscapeParser(False)
    found = [*parser.feed(data)]
    now = 1.0
    found += [*parser.tick()]
    return [message.key for message in found if isinstance(message, Key)]


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        ("\x1bm", ["escape", "m"]),
        ("\x1bm\x1b[24;80R", ["escape", "m"]),
        ("\x1bRppo", ["escape", "R", "p", "p", "o"]),
        ("\x1b\x1bK", ["escape", "escape", "K"]),
        ("\x1b?", ["escape", "question_mark"]),
        ("\x1b]", ["escape", "right_square_bracket"]),
        ("\x1b", ["escape"]),
    ],
)
def test_an_esc_is_one_whatever_comes_at_once_behind_it(
    data: str, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Textual made Alt of it: Esc was lost, and of a letter with an answer of the terminal behind it came `^`, too."""
    assert keys_of(data, monkeypatch) == keys


@pytest.mark.parametrize("data", ["\x1b1", "\x1b0", "\x1bP"])
def test_alt_with_a_launch_key_starts_nothing(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Alt and a digit people change tabs and windows."""
    assert keys_of(data, monkeypatch) == ["escape"]


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        ("\x1b[A", ["up"]),
        ("\x1bOP", ["f1"]),
        ("\x1bf", ["ctrl+right"]),
        ("\x1b\x7f", ["ctrl+w"]),
        ("\x1b[", ["left_square_bracket"]),
    ],
)
def test_keys_that_begin_with_an_esc_are_those(data: str, keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """And of one whose end was lost the beginning is no Esc, which would turn away from a sheet."""
    assert keys_of(data, monkeypatch) == keys


COLOURED = "\x1b[200~loss \x1b[31m0.3\x1b[0m\rK\x1by 1\r\x1b[201~"


@pytest.mark.parametrize("at", range(1, len(COLOURED)))
def test_coloured_text_that_is_pasted_is_text_wherever_it_is_cut(at: int) -> None:
    """What followed an Esc in it was pressed as keys: here it would kill a run, and start one."""
    parser = EscapeParser()
    found = [*parser.feed(COLOURED[:at]), *parser.feed(COLOURED[at:]), *parser.feed("j")]
    assert [it.text for it in found if isinstance(it, Paste)] == ["loss 0.3\rKy 1\r"]
    assert [it.key for it in found if isinstance(it, Key)] == ["j"]


def test_a_paste_that_ends_in_an_esc_leaves_the_parser_as_it_was() -> None:
    """Also when the next one follows at once."""
    found = [*EscapeParser().feed("\x1b[200~a\x1b\x1b[201~\x1b[200~b\x1b[201~j")]
    assert [it.text for it in found if isinstance(it, Paste)] == ["a", "b"]
    assert [it.key for it in found if isinstance(it, Key)] == ["j"]
