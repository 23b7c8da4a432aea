"""How far a part has come, on disk: a campaign that is killed loses at most the round it was in and `SAVE_EVERY_S`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import msgspec
from msgspec import Struct, field

from mission_tui.records.atomic import write_json
from tests.faults.campaign.part import Part, Violation

__all__ = ["Progress", "kept_progress", "load_progress", "rounds_of"]

SAVE_EVERY_S = 2.0


class Progress(Struct):
    """One part's state: which seed, how many rounds were asked and done, what was found, and how long it took."""

    part: str
    seed: int
    asked: int
    done: int = 0
    seconds: float = 0.0
    violations: list[Violation] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    day: str = ""
    commit: str = ""
    """Of which code the rounds were: a commit, or the first and the last where the campaign went on with another."""

    skipped: str = ""

    def tell(self, what: str, more: int) -> None:
        """Add to a figure."""
        self.figures[what] = self.figures.get(what, 0) + more

    def measured_at(self, commit: str) -> None:
        """Rounds from now on are of `commit`."""
        first = self.commit.partition("..")[0] if self.done else ""
        self.commit = f"{first}..{commit}" if first and first != commit else commit

    def save(self, folder: Path) -> None:
        """Keep it in `folder`."""
        write_json(folder / f"{self.part}.json", self)


def kept_progress(folder: Path, part: Part) -> Progress | None:
    """What is kept of the last campaign that ran this part."""
    try:
        return msgspec.json.decode((folder / f"{part.name}.json").read_bytes(), type=Progress)
    except FileNotFoundError:
        return None


def load_progress(folder: Path, part: Part, seed: int, asked: int) -> Progress:
    """Where this part was left with the same seed and as many rounds, or the beginning."""
    kept = kept_progress(folder, part)
    if kept is not None and (kept.seed, kept.asked) == (seed, asked):
        return kept
    return Progress(part.name, seed, asked)


def rounds_of(progress: Progress, folder: Path, seconds: float) -> Generator[int, None, None]:
    """The rounds still to do, for at most `seconds`. A round is done when the next one is asked for."""
    began = saved = time.monotonic()
    before, spent = Counter(progress.figures), progress.seconds
    try:
        while progress.done < progress.asked and time.monotonic() - began < seconds:
            yield progress.done
            progress.done += 1
            before = Counter(progress.figures)
            progress.seconds = spent + time.monotonic() - began
            if time.monotonic() - saved > SAVE_EVERY_S:
                progress.save(folder)
                saved = time.monotonic()
    except GeneratorExit:
        # A round that was not finished is done again, so its figures do not count.
        progress.figures = dict(before)
        raise
    finally:
        progress.seconds = spent + time.monotonic() - began
