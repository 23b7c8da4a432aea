"""Foreign text made harmless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mission_tui.fleet.text import clean, clean_line, clean_lines, spelled_out


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("Größe 猫 → ✓", "Größe 猫 → ✓"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;2;1;2;3mrgb", "rgb"),
        ("\x9b31mc1", "c1"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
        ("a\x1b]52;c;aGk=\x9cb", "ab"),
        ("a\x1bPq...\x1b\\b", "ab"),
        ("a\x1b]0;never ended", "a"),
        ("a\x1b(0b\x1bcd", "abd"),
        ("one\ntwo\r\nthree\tfour", "one two three four"),
        ("a\rb", "a b"),
        ("nul\x00bell\x07back\x08", "nulbellback"),
        ("a\u202eb\u2066c\u200dd\ufeffe\u00adf", "abcdef"),
        ("line\u2028separator", "line separator"),
        ("surrogate\ud800", "surrogate"),
        ("z" + "\u0301" * 50, "z" + "\u0301" * 3),
        ("[bold]markup[/]", "[bold]markup[/]"),
        ("", ""),
        ("  many   blanks  ", "many blanks"),
    ],
)
def test_only_one_harmless_line_remains(text: str, cleaned: str) -> None:
    """Escapes, controls, bidi and zero-width characters go; printable Unicode and literal markup stay."""
    assert clean(text) == cleaned


def test_long_text_is_cut_with_an_ellipsis() -> None:
    """What is cut off is visible as such."""
    assert clean("x" * 300, limit=10) == "x" * 9 + "…"
    assert clean("x" * 10, limit=10) == "x" * 10


def test_only_the_beginning_of_a_huge_text_is_looked_at() -> None:
    """A gigabyte line without an end must not cost more than a short one; the rest is cut off visibly."""
    assert clean("\x1b[0m" * 10_000_000 + "end", limit=10) == "…"


@given(st.text(), st.integers(min_value=1, max_value=300))
def test_any_text_gives_one_printable_line(text: str, limit: int) -> None:
    """Whatever comes in, a printable line of at most `limit` characters goes out, and cleaning it again keeps it."""
    line = clean(text, limit)
    assert line.isprintable()
    assert len(line) <= limit
    assert clean(line, limit) == line


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("|  rollout/     |       |", "|  rollout/     |       |"),
        ("  indented\t\tby tabs", "  indented              by tabs"),
        ("\x1b[32m  a   b\x1b[0m  ", "  a   b  "),
        ("overwritten\rby this", "overwritten by this"),
        ("two\nlines", "two lines"),
        ("a\x9b2Jb\x85c\u202ed\x7f", "ab cd"),
        ("name-\udcff\udcfe", "name-\ufffd\ufffd"),
    ],
)
def test_a_line_keeps_its_columns(text: str, cleaned: str) -> None:
    """Blanks stay as they are, also between words, and everything else goes as it does everywhere."""
    assert clean_line(text) == cleaned
    assert clean_line(text, 80) == cleaned


def test_lines_are_cleaned_one_by_one() -> None:
    """A string to the terminal that never ends takes no line but its own."""
    assert clean_lines("a  b\n\x1b]0;never\nc\n") == "a  b\n\nc\n"


@given(st.text(), st.integers(min_value=1, max_value=300))
def test_any_text_gives_a_line_and_lines_without_controls(text: str, limit: int) -> None:
    """Printable, no longer than asked for, and not changed by being cleaned again."""
    line, lines = clean_line(text, limit), clean_lines(text)
    assert line.isprintable()
    assert len(line) <= limit
    assert clean_line(line) == line
    assert lines.replace("\n", "").isprintable()
    assert lines.count("\n") == text.count("\n")
    assert clean_lines(lines) == lines


def test_what_is_agreed_to_is_spelled_out() -> None:
    """Every character is there: as itself where it can be printed, else as its escape."""
    hidden = "true #\x1b]0;\nrm -rf x\x07\u202e\x9b\udcff é"
    assert spelled_out(hidden) == r"true #\x1b]0;\nrm -rf x\x07\u202e\x9b\udcff é"
    assert spelled_out("a  b") == "a  b"
    assert "rm -rf" not in clean(hidden)


def test_a_letter_that_nobody_sees_is_no_difference_between_two_names() -> None:
    """Fillers, joiners and selectors count as letters and marks; in what is agreed to each is spelled out."""
    hidden = "pyt\u034fhon\u3164\ufe0f x\U000e0100.py"
    assert clean(hidden) == clean_line(hidden) == "python x.py"
    assert spelled_out(hidden) == r"pyt\u034fhon\u3164\ufe0f x\U000e0100.py"
    assert clean("a" + 40 * "\u20dd") == "a" + 3 * "\u20dd"
