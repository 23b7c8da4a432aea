"""What the instruments showed, on disk: `.supervisor/instruments/`, lines with a CRC in files of three tiers.

Fine cells and spans are kept for a quarter of an hour, coarser ones longer. A file is begun anew now and then and by
each writer, so a torn line is the last of its file; files are removed as a whole. Nothing is synced: what a power cut
takes is some minutes of a picture, and damage costs the lines that it hit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct

from mission_tui.fleet.strips.cells import Cell
from mission_tui.fleet.strips.strip import Span
from mission_tui.plain_files import make_folder, names_in, open_to_append
from mission_tui.records.files.atomic import write_all
from mission_tui.records.files.lines import encode_line
from mission_tui.records.files.storage import storing
from mission_tui.records.files.tail import read_all

MOST_BYTES = 200_000_000
"""All files together; the oldest go first where a machine with very many GPUs and runs would take more."""
NAME = re.compile(r"(fine|middle|coarse)-(\d{1,12})-\d{1,9}\.jsonl")


@dataclass(frozen=True, slots=True)
class Tier:
    """Seconds between two writings, until a file is followed by the next, and for which what it holds is kept."""

    name: str
    write_s: float
    file_s: float
    keep_s: float


TIERS = (
    Tier("fine", 10.0, 300.0, 900.0),
    Tier("middle", 60.0, 1_800.0, 7_200.0),
    Tier("coarse", 600.0, 14_400.0, 86_400.0),
)
"""Finest first. What a coarse one has not been written when the supervisor dies is made again from a finer one."""


class CellsRecord(Struct, frozen=True, tag="cells", tag_field="kind", omit_defaults=True):
    """Cells of one track of the GPU `gpu`, called `name`, or of the host; times are unix s.

    In percent `busy` of a GPU and the host's `cpu`; `power` in W, `temperature` in degrees Celsius; in bytes a GPU's
    `vram` and the host's `ram` and `swap` in use, each with its `total`, and what is free of the `disk`; the `load`.
    """

    seq: int
    track: str
    gpu: str = ""
    name: str = ""
    cells: tuple[Cell, ...] = ()
    total: float | None = None


class SpansRecord(Struct, frozen=True, tag="spans", tag_field="kind", omit_defaults=True):
    """Phases of the run `run`."""

    seq: int
    run: str
    spans: tuple[Span, ...] = ()


Kept = CellsRecord | SpansRecord


class MeterFiles:
    """The files below `folder`. One writer; a reader may look at them at any time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, tuple[Path, float, int]] = {}

    def append(self, tier: Tier, now: float, makers: Sequence[Callable[[int], Kept]]) -> None:
        """Write the records that `makers` build for the next numbers at unix time `now`. Raises `StorageError`."""
        if not makers:
            return
        path, begun, seq = self._open.pop(tier.name, (None, 0.0, 0))
        if path is None or not begun <= now < begun + tier.file_s:
            path, begun, seq = self._folder / f"{tier.name}-{int(now)}-{os.getpid()}.jsonl", now, 0
        lines = b"".join(encode_line(make(seq + number)) for number, make in enumerate(makers, 1))
        with storing(path, "append to"):
            make_folder(self._folder)
            descriptor = open_to_append(path)
            try:
                write_all(descriptor, lines)
            finally:
                os.close(descriptor)
        # Only now: after a refusal the next file is another one, because this may end in half a line.
        self._open[tier.name] = path, begun, seq + len(makers)

    def read(self, tier: Tier, now: float) -> tuple[list[Kept], list[str]]:
        """What is kept of the last `keep_s` before `now`, oldest first, and a sentence per incident of damage."""
        kept, damage = list[Kept](), list[str]()
        for begun, path in self._files():
            if path.name.startswith(tier.name) and now - tier.keep_s - tier.file_s <= begun <= now:
                with suppress(OSError):
                    records, bad = read_all(path, Kept)
                    kept += records
                    damage += bad
        return kept, damage

    def prune(self, now: float, most_bytes: int = MOST_BYTES) -> None:
        """Remove files that hold nothing more of their time, and the oldest ones beyond `most_bytes`. Never raises."""
        keep = {tier.name: tier.file_s + tier.keep_s for tier in TIERS}
        left = 0
        for begun, path in sorted(self._files(), reverse=True):
            with suppress(OSError):
                left += path.lstat().st_size
                if begun + keep[path.name.split("-")[0]] < now or left > most_bytes:
                    path.unlink()

    def _files(self) -> Iterator[tuple[float, Path]]:
        """When each file was begun, and its path, oldest first."""
        with suppress(OSError):
            found = [(NAME.fullmatch(name), self._folder / name) for name in names_in(self._folder)]
            yield from sorted((float(name[2]), path) for name, path in found if name is not None)
