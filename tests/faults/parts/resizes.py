"""A storm of sizes: a thousand, odd ones and bursts among them, over every kind of screen, in a real terminal.

A round is a size. After each leg the screens that were opened are left and the terminal takes an ordinary size: the
picture is then, cell for cell, that of a program which began at this size, and the terminal is as it was.
"""

from __future__ import annotations

import os
import random
import select
import time
from collections.abc import Iterable, Iterator

import pyte

from tests.faults.campaign.part import Part, Tell, Violation, chance
from tests.tui.played import Terminal, terminal

__all__ = ["PART"]

FLEET = "many"
ODD = ((0, 0), (1, 1), (1, 400), (400, 1), (24, 10_000), (2, 3), (10, 39), (9, 40), (300, 300))
"""Rows and columns."""
ORDINARY = ((24, 80), (50, 160), (40, 120), (10, 40), (60, 200), (30, 100))
LEG = 50
OPENED = ("", "\r", "?", "n", "m", ":", "x", "h", "l", "T")
PATIENCE_S, QUIET_S = 60.0, 3.0
ESCAPES = 4
MISHAP = b"Something went wrong"

Picture = tuple[str, ...]


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    whole: dict[tuple[int, int], Picture] = {}
    with terminal(FLEET) as played:
        played.read_until(b"demo", PATIENCE_S)
        os.write(played.master, b"\x1b")  # what happened while one was away is closed
        for index in rounds:
            luck = chance(seed, index)
            if index % LEG == 0:
                os.write(played.master, OPENED[index // LEG % len(OPENED)].encode())
            played.resize(*_size(luck))
            tell("sizes", 1)
            if luck.random() < 0.5:
                _read(played, luck.uniform(0.0, 0.05))
            if index % LEG == LEG - 1:
                size = ORDINARY[index // LEG % len(ORDINARY)]
                if size not in whole:
                    whole[size] = _begun_at(size)
                yield from (f"after size {index}: {it}" for it in _after_leg(played, size, whole[size]))
                tell("pictures compared", 1)
            if played.process.poll() is not None:
                told = played.output[-1500:].decode(errors="replace")
                yield f"after size {index}: the screen ended with {played.process.returncode}: {told!r}"
                return
        yield from _left(played)


def _size(luck: random.Random) -> tuple[int, int]:
    """One of twenty is odd, the others are those of dragged and tiled windows."""
    return luck.choice(ODD) if luck.random() < 0.05 else (luck.randrange(1, 80), luck.randrange(1, 260))


def _begun_at(size: tuple[int, int]) -> Picture:
    """What a program shows that never had another size."""
    rows, columns = size
    with terminal(FLEET, rows=rows, columns=columns) as played:
        drawn = _Drawn(played, size)
        due = time.monotonic() + PATIENCE_S
        while time.monotonic() < due and "demo" not in drawn.picture[-1]:
            drawn.read(0.1)
        os.write(played.master, b"\x1b")
        while time.monotonic() < due and drawn.read(QUIET_S):
            pass
        return drawn.picture


def _after_leg(played: Terminal, size: tuple[int, int], whole: Picture) -> Iterator[Violation]:
    """Back to the fleet, at an ordinary size."""
    rows, columns = size
    _read(played, 0.2)
    if played.process.poll() is not None:
        return
    drawn = _Drawn(played, size)
    played.resize(rows, columns)
    for _ in range(ESCAPES):
        os.write(played.master, b"\x1b")
        due = time.monotonic() + PATIENCE_S / ESCAPES
        while time.monotonic() < due and drawn.picture != whole:
            drawn.read(0.1)
        if drawn.picture == whole:
            break
    else:
        wrong = [f"{one!r} for {other!r}" for one, other in zip(drawn.picture, whole, strict=True) if one != other]
        yield f"at {columns}x{rows} {len(wrong)} lines are not as they should be: {'; '.join(wrong[:2])}"
    if MISHAP in played.output:
        yield "the screen told of an error of its own"
        played.output = b""


def _left(played: Terminal) -> Iterator[Violation]:
    """The terminal as its shell wants it back."""
    os.write(played.master, b"q")
    played.drain()
    if code := played.ended_within(PATIENCE_S):
        yield f"leaving ended with {code}"
    told = played.output
    for on, off in ((b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?25l", b"\x1b[?25h"), (b"\x1b[?2004h", b"\x1b[?2004l")):
        if told.rfind(off) < told.rfind(on):
            yield f"{off!r} was not sent in the end"


class _Drawn:
    """What is written from now on, as a terminal of that size shows it."""

    def __init__(self, played: Terminal, size: tuple[int, int]) -> None:
        self._played = played
        self._screen = pyte.Screen(size[1], size[0])
        self._stream = pyte.ByteStream(self._screen)

    def read(self, seconds: float) -> bool:
        """Draw what comes within `seconds`; whether anything came."""
        told = _read(self._played, seconds)
        self._stream.feed(told)
        return bool(told)

    @property
    def picture(self) -> Picture:
        """Its lines."""
        return tuple(self._screen.display)


def _read(played: Terminal, seconds: float) -> bytes:
    """All that is written within `seconds`, kept as the terminal's output too."""
    due, told = time.monotonic() + seconds, b""
    while (left := due - time.monotonic()) > 0:
        if select.select([played.master], [], [], left)[0]:
            try:
                told += os.read(played.master, 1 << 16)
            except OSError:  # the program has ended
                break
    played.output = (played.output + told)[-(1 << 20) :]
    return told


PART = Part("resizes", ("T4",), 1000, _run)
