"""Views of ended runs that wait on the shelf, kept with what their files were when they were read.

Reading such a run takes some milliseconds, and a page of a list asks for hundreds. A view is given again only while
every file that it came of, and every folder on the way, is the one that it was.
"""

from __future__ import annotations

import os

import msgspec

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.records.runs.layout import RunDir

__all__ = ["ShelvedViews"]

MOST = 2000
"""Some 2 kB each."""

Stamp = int
"""The hash of what nine files and folders are: of two thousand runs those facts would take megabytes."""


class ShelvedViews:
    """At most `MOST` views; of more, those that nobody asked for the longest are let go."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, Stamp, bytes]] = {}
        self._decoder = msgspec.msgpack.Decoder(RunView)

    @property
    def full(self) -> bool:
        """Whether another one takes the place of one that is kept."""
        return len(self._kept) >= MOST

    def get(self, run: RunDir) -> RunView | None:
        """The view of the run; None where none is kept, or anything of it was changed since."""
        kept = self._kept.pop(run.id, None)
        if kept is None or stamp_of(run, kept[0]) != kept[1]:
            return None
        self._kept[run.id] = kept
        return self._decoder.decode(kept[2])

    def keep(self, run: RunDir, view: RunView, stamp: Stamp) -> None:
        """Keep the view of a run whose files had this `stamp` before they were read."""
        self._kept.pop(run.id, None)
        if self.full:
            del self._kept[next(iter(self._kept))]
        # Not as JSON, which has no NaN.
        self._kept[run.id] = view.attempt, stamp, msgspec.msgpack.encode(view)


def stamp_of(run: RunDir, attempt: int) -> Stamp:
    """What tells whether a view of the run, whose newest attempt is `attempt`, is still true."""
    path = str(run.path)
    inner = f"{path}/attempts/{attempt}"
    names = (f"{inner}/launch.json", f"{inner}/spec.toml", f"{inner}/exit.json")
    files = (f"{path}/events.jsonl", f"{path}/metrics.jsonl", f"{path}/spec.toml", *names)
    return hash(tuple(map(_facts, (path, f"{path}/attempts", inner, *files))))


def _facts(path: str) -> tuple[int, ...]:
    """Nobody sets the time of a change (`ctime`), and it moves with contents, names, rights and owner alike."""
    try:
        facts = os.lstat(path)
    except OSError:
        return ()
    return facts.st_ino, facts.st_dev, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
