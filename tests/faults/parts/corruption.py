"""Damaged checkpoints and journals: every length, every byte, then whatever else a disk may do to a file.

A damaged checkpoint must not verify and the one before it must be taken; a damaged journal must give back exactly the
records whose lines are whole, keep every other byte aside, and go on with the next number.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from mission_tui.errors import CheckpointError
from mission_tui.fleet.events.journal import FleetEvent
from mission_tui.records.jsonl import AppendLog, read_all
from mission_tui.records.runs.checkpoint import newest_verified, verify_checkpoint
from tests.faults.campaign.part import Part, Tell, Violation, chance, memory_folder
from tests.records.journal import paused, write_journal
from tests.records.saving import save

__all__ = ["PART"]

RECORDED = Path(__file__).parents[2] / "fixtures" / "format-1" / "20261121-040628-recorded-2aa5" / "checkpoints"
JOURNAL_RECORDS = 5


def corrupted(whole: bytes, luck: random.Random) -> bytes:
    """`whole` with one or more things that disks, cables and interrupted copies do; never equal to `whole`."""
    data = bytearray(whole)
    while bytes(data) == whole:
        for _ in range(luck.choice((1, 1, 1, 2, 5))):
            at = luck.randrange(len(data) + 1)
            span = luck.choice((1, 2, 7, 64, 512, 4096))
            match luck.randrange(6):
                case 0:
                    del data[at:]
                case 1 if at < len(data):
                    data[at] ^= 1 << luck.randrange(8)
                case 2:
                    data[at : at + span] = bytes(len(data[at : at + span]))
                case 3:
                    data[at:at] = luck.randbytes(span)
                case 4:
                    del data[at : at + span]
                case _:
                    data[at : at + span] = luck.randbytes(len(data[at : at + span]))
    return bytes(data)


def nth_damage(whole: bytes, number: int, luck: random.Random) -> bytes:
    """Damage `number`: cut at every length first, then a flip in every byte, then `corrupted`."""
    if number < len(whole):
        return whole[:number]
    if number < 2 * len(whole):
        flipped = bytearray(whole)
        flipped[number - len(whole)] ^= luck.randrange(1, 256)
        return bytes(flipped)
    return corrupted(whole, luck)


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    with memory_folder() as folder:
        subjects: list[_Small | _Journal] = [
            _Small(folder / "small"),
            _Recorded(folder / "recorded"),
            _Journal(folder / "journal"),
        ]
        for index in rounds:
            subject = subjects[index % len(subjects)]
            yield from (f"round {index}: {it}" for it in subject.damaged(index // len(subjects), chance(seed, index)))
            tell(subject.what, 1)


class _Small:
    """Checkpoints of a few hundred bytes, so that every length and byte of each file is tried."""

    what = "damaged checkpoints"

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.older, self.newer = self.made()
        self.files = sorted((folder / self.newer).iterdir())
        self.wholes = [path.read_bytes() for path in self.files]

    def made(self) -> tuple[str, str]:
        return save(self.folder, 100), save(self.folder, 200)

    def damaged(self, number: int, luck: random.Random) -> Iterator[Violation]:
        which = number % len(self.files)
        path, whole = self.files[which], self.wholes[which]
        number //= len(self.files)
        path.write_bytes(nth_damage(whole, number, luck))
        try:
            verify_checkpoint(self.folder / self.newer)
            yield f"{path.name} with damage {number} verifies"
        except CheckpointError:
            pass
        newest = newest_verified(self.folder)
        if newest is None or newest.name != self.older:
            yield f"with a damaged {path.name} the newest verified is {newest and newest.name}"
        path.write_bytes(whole)


class _Recorded(_Small):
    """The checkpoints of a real training as they were recorded."""

    what = "damaged recorded checkpoints"

    def made(self) -> tuple[str, str]:
        shutil.copytree(RECORDED, self.folder, dirs_exist_ok=True)
        older, newer = sorted(path.name for path in self.folder.iterdir() if path.is_dir())
        return older, newer


class _Journal:
    """A journal of a few records."""

    what = "damaged journals"

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.whole = write_journal(folder / "events.jsonl", JOURNAL_RECORDS)
        self.lines = {line: paused(seq) for seq, line in enumerate(self.whole.splitlines(keepends=True), start=1)}

    def damaged(self, number: int, luck: random.Random) -> Iterator[Violation]:
        path = self.folder / "events.jsonl"
        data = nth_damage(self.whole, number, luck)
        path.write_bytes(data)
        kept = [self.lines[line + b"\n"] for line in data.split(b"\n")[:-1] if line + b"\n" in self.lines]
        log = AppendLog(path, sync_every_s=3600.0)
        if path.read_bytes() + (log.torn or b"") != data:
            yield f"opening a journal with damage {number} lost bytes"
        if log.last_seq != max((record.seq for record in kept), default=0):
            yield f"a journal with damage {number} goes on after {log.last_seq}"
        kept.append(log.append(paused))
        log.close()
        records, damage = read_all(path, FleetEvent)
        if path.read_bytes().count(b"\n") != len(kept) and not damage:
            yield f"a journal with damage {number} in its middle is read in silence"
        if records != kept:
            yield f"a journal with damage {number} gives back {[it.seq for it in records]}"
        for aside in self.folder.glob("*.torn-*"):
            aside.unlink()


PART = Part("corruption", ("C2", "D5", "D6"), 20_000, _run)
