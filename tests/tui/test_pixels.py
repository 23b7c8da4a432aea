"""Pictures of pixels in a terminal: asked for, told from keys, replaced, and taken away."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import select
import signal
from collections.abc import Callable

import pytest
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key
from textual.message import Message

from mission_tui.tui.terminal import pixels
from mission_tui.tui.terminal.driver import MeteredDriver
from mission_tui.tui.terminal.pixels import (
    QUERY,
    AnswerParser,
    KittyPicture,
    Placed,
    SixelAnswers,
    SixelPicture,
    may_ask,
    shows_pictures,
)
from tests.tui.played import Terminal, terminal
from tests.waiting import until

ANSWER = "\x1b_Gi=31;OK\x1b\\"
OF_ITSELF = "\x1b[?62;4;22c\x1b[?1;0;256S"
MARK = b"\x1b[6n"
PLACED, REMOVED = rb"\x1b_Ga=T,f=100,i=(\d+),", rb"\x1b_Ga=d,d=I,i=(\d+),"


def keys_of(messages: list[Message]) -> list[str]:
    return [message.key for message in messages if isinstance(message, Key)]


TYPED = f"j{ANSWER}k"


@pytest.mark.parametrize("at", range(1, len(TYPED)))
def test_an_answer_between_keys_is_no_key_wherever_it_is_cut(at: int) -> None:
    """What was pressed before and after it arrives as it was pressed, and nothing else does."""
    said: list[str] = []
    parser = AnswerParser(False, lambda: True, said.append)
    found = [*parser.feed(TYPED[:at]), *parser.tick(), *parser.feed(TYPED[at:])]
    assert (keys_of(found), [shows_pictures(it) for it in said]) == (["j", "k"], [True])


def test_an_escape_that_nothing_follows_is_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for what may follow only while an answer is expected, and no longer than a moment."""
    now = 0.0
    monkeypatch.setattr(pixels, "monotonic", lambda: now)
    monkeypatch.setattr("textual._parser.get_time", lambda: now)
    for expecting in (True, False):
        parser = AnswerParser(False, lambda: expecting, print)  # noqa: B023
        found = [*parser.feed("\x1b"), *parser.tick()]
        assert found == []
        for _ in range(3):
            now += 0.2
            found += parser.tick()
        assert keys_of(found) == ["escape"]


def test_an_answer_that_never_ends_swallows_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is forgotten after a second, and what is too long was none."""
    now = 0.0
    monkeypatch.setattr(pixels, "monotonic", lambda: now)
    parser = AnswerParser(False, lambda: True, print)
    assert [*parser.feed("\x1b_Gi=31")] == []
    now = 2.0
    assert [*parser.tick()] == []
    assert keys_of([*parser.feed("j")]) == ["j"]
    assert len(keys_of([*parser.feed("\x1b_G" + "x" * 300)])) == 300


def test_a_picture_is_replaced_and_taken_away() -> None:
    """The next one is there before the last one goes; what stands already is not sent again."""
    picture = KittyPicture()
    assert picture.news == ""
    picture.wanted = first = Placed(b"a" * 5000, 3, 1, 40, 12)
    sent = picture.news
    assert sent.startswith("\x1b7\x1b[2;4H\x1b_Ga=T,f=100,i=4712,p=1,q=2,C=1,c=40,r=12,m=1;")
    chunks = re.findall(r"\x1b_G[^;]*;([^\x1b]*)\x1b\\", sent)
    assert base64.b64decode("".join(chunks)) == first.png
    assert [len(chunk) <= 4096 for chunk in chunks] == [True, True]
    assert picture.news == ""
    picture.wanted = Placed(b"b", 3, 1, 40, 12)
    again = picture.news
    assert again.index("a=T,f=100,i=4711") < again.index("a=d,d=I,i=4712")
    assert "a=d,d=I,i=4711" in picture.take_away()
    assert picture.take_away() == ""
    assert "a=T" in picture.news
    picture.wanted = None
    assert "a=d" in picture.news


def test_a_picture_of_sixels_is_drawn_over_and_blanked() -> None:
    """The next one over it; where it lies elsewhere, or goes, blanks over all of its cells."""
    picture = SixelPicture()
    picture.wanted = Placed(b"", 3, 1, 40, 2, "#0~")
    assert picture.news == "\x1b7\x1b[2;4H\x1bP7;1q#0~\x1b\\\x1b8"
    picture.wanted = Placed(b"", 3, 1, 40, 2, "#1~")
    assert " " not in picture.news
    picture.wanted = Placed(b"", 3, 5, 40, 2, "#1~")
    moved = picture.news
    assert moved.index("\x1b[2;4H" + " " * 40 + "\x1b[3;4H" + " " * 40) < moved.index("\x1bP")
    gone = picture.take_away()
    assert "\x1b[6;4H" + " " * 40 in gone
    assert picture.take_away() == ""


@pytest.mark.parametrize("at", range(1, len(OF_ITSELF)))
def test_what_a_terminal_says_of_itself_is_no_key_wherever_it_is_cut(at: int) -> None:
    """Sixels in 256 colours are a yes; keys beside that arrive as they were pressed."""
    told = SixelAnswers()
    parser = AnswerParser(False, lambda: True, print, told.take)
    typed = f"j{OF_ITSELF}k"
    messages = [message for part in (typed[: at + 1], typed[at + 1 :]) for message in parser.feed(part)]
    assert keys_of(messages) == ["j", "k"]
    assert told.yes


@pytest.mark.parametrize(
    "said", ["\x1b[?62;22c\x1b[?1;0;256S", "\x1b[?62;4c\x1b[?1;0;16S", "\x1b[?62;4c\x1b[?1;3S", "j"]
)
def test_a_terminal_without_sixels_or_colours_for_them_says_no(said: str) -> None:
    """An xterm that is a VT340 has 16, and draws parts of a picture in wrong ones."""
    told = SixelAnswers()
    assert keys_of([*AnswerParser(False, lambda: True, print, told.take).feed(said)]) == [said] * (said == "j")
    assert not told.yes


@pytest.mark.parametrize(
    ("environ", "asked"),
    [
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "linux"}, False),
        ({"TERM": "tmux-256color"}, False),
        ({"TERM": "screen"}, False),
        ({"TERM": "xterm-256color", "TMUX": "/tmp/tmux-0/default,1,0"}, False),
        ({"TERM": "xterm-256color", "STY": "1.pts"}, False),
        ({}, False),
    ],
)
def test_terminals_that_would_misread_the_question_are_not_asked(environ: dict[str, str], asked: bool) -> None:
    """The Linux console prints it; tmux and screen take it for a title."""
    assert may_ask(environ) is asked


def talking(played: Terminal, answer: bytes, done: Callable[[], bool], what: str) -> None:
    """Read until it is done, and answer marks, and the question with `answer`, as a terminal does."""

    def look() -> bool:
        while select.select([played.master], [], [], 0.02)[0]:
            before = len(played.output)
            played.output += os.read(played.master, 1 << 16)
            fresh = played.output[max(0, before - 30) :]
            asked, at = fresh.find(QUERY.encode()), max(0, before - 30)
            if asked >= 0 and at + asked + len(QUERY) > before:
                os.write(played.master, answer)
            for _ in range(played.output.count(MARK, max(0, before - 3))):
                os.write(played.master, b"\x1b[1;1R")
        return done()

    until(look, 30.0, what)


@pytest.mark.slow
def test_a_terminal_that_says_so_gets_pixels_and_keeps_none() -> None:
    """From its answer on, among keys; whatever lies over the tab, or ends it, takes the picture away."""
    with terminal(rows=40, columns=120) as played:
        played.read_until(b"heavy-3f9a")

        def placed() -> list[bytes]:
            return re.findall(PLACED, played.output)

        def left() -> int:
            return len(placed()) - len(re.findall(REMOVED, played.output))

        os.write(played.master, b"w")
        talking(played, ANSWER.encode(), lambda: len(placed()) > 3, "pictures")
        assert b"o@" not in played.output
        for key in (b"?", b"l"):
            os.write(played.master, key)
            talking(played, b"", lambda: left() == 0, f"gone after {key!r}")
            os.write(played.master, b"\x1b" if key == b"?" else b"w")
            many = len(placed())
            talking(played, b"", lambda: len(placed()) > many + 2, "pictures again")  # noqa: B023
        os.write(played.master, b"v")
        talking(played, b"", lambda: left() == 0 and b"half blocks" in played.output, "turned off by v")
        os.write(played.master, b"v")
        many = len(placed())
        talking(played, b"", lambda: len(placed()) > many + 1, "turned on again")
        os.kill(played.process.pid, signal.SIGTSTP)
        talking(played, b"", lambda: left() == 0 and b"\x1b[?1049l" in played.output, "gone while it is suspended")
        many = len(placed())
        os.kill(played.process.pid, signal.SIGCONT)
        talking(played, b"", lambda: len(placed()) > many + 1, "pictures once it goes on")
        os.write(played.master, b"q")
        played.drain()
        assert left() == 0
        assert played.ended_within(10.0) == 0


async def test_it_is_suspended_between_two_turns_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where the signal comes: amid a picture that is noted and not written yet it would take none away."""
    suspended: list[object] = []
    monkeypatch.setattr(LinuxDriver, "_sigtstp_application", lambda _driver, *_arguments: suspended.append("stopped"))
    driver = object.__new__(MeteredDriver)
    driver._loop = asyncio.get_running_loop()
    driver._sigtstp_application(signal.SIGTSTP, None)
    assert suspended == []
    await asyncio.sleep(0)
    assert suspended == ["stopped"]


def test_a_terminal_that_is_silent_gets_characters() -> None:
    """It answers marks, as every terminal does, and never says that it shows pictures."""
    with terminal(rows=40, columns=120) as played:
        played.read_until(b"heavy-3f9a")
        os.write(played.master, b"w")
        talking(played, b"", lambda: re.search(rb"o@", played.output) is not None, "characters")
        assert played.output.count(QUERY.encode()) == 1
        assert not re.search(PLACED, played.output)
