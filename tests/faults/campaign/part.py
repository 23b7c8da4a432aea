"""What one part of the campaign is. A part knows neither clock nor state file: it takes rounds until there are no more.

A round is a number; all that is random in it comes from the seed and that number, so that any round can be repeated
alone and a campaign that was killed goes on where it was.
"""

from __future__ import annotations

import logging
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Part", "Run", "Tell", "Violation", "chance", "memory_folder", "quiet", "violations_in"]

Violation = str
"""One sentence: which invariant failed, in which round, with what."""

Tell = Callable[[str, int], None]
"""Adds to a figure of the report: `tell("crash points", 1)`."""

Run = Callable[[Iterable[int], int, Tell], Iterator[Violation]]
"""Rounds to do, the seed, and where figures go; yields what went wrong."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part: `rounds` is what the full campaign asks for, `rows` are the catalogue's it covers.

    `lacks` says why the part cannot run on this machine, or nothing.
    """

    name: str
    rows: tuple[str, ...]
    rounds: int
    run: Run
    lacks: Callable[[], str] = str


def chance(seed: int, index: int) -> random.Random:
    """The source of everything random in round `index`."""
    return random.Random(f"{seed}:{index}")


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings of what a simulation breaks on purpose; they come again afterwards, for other tests."""
    log = logging.getLogger("mission_tui")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A folder in memory where there is one: for rounds that need files, but not that these outlive anything."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="mission-tui-faults-", dir=shared if shared.is_dir() else None) as name:
        yield Path(name)


def violations_in(part: Part, rounds: Iterable[int], seed: int = 1) -> tuple[list[Violation], Counter[str]]:
    """What `rounds` of a part find, and its figures: the form in which CI runs a few of them."""
    figures: Counter[str] = Counter()

    def tell(what: str, more: int) -> None:
        figures[what] += more

    return list(part.run(rounds, seed, tell)), figures
