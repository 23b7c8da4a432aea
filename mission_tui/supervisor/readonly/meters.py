"""The strip read from the meter files of a supervisor, for read-only clients; some seconds behind."""

from __future__ import annotations

import time
from pathlib import Path

from mission_tui.fleet.strips.phases import PhaseHistory
from mission_tui.records.meter_history import TIERS, MeterFiles
from mission_tui.records.runs.layout import instruments_dir
from mission_tui.supervisor.queries.history import Tracks
from mission_tui.supervisor.watching.restored_histories import RestoredHistories, behind, restore_histories

FRESH_S = 5.0


class ReadonlyMeters:
    """Reads the files when asked, and not again for a few seconds."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tracks: Tracks | None = None
        self._read_at = float("-inf")

    def tracks(self) -> Tracks:
        """What the files hold of the last day. Damage and what may not be read are passed over."""
        if self._tracks is None or time.monotonic() - self._read_at > FRESH_S:
            self._tracks = tracks_of(*read_meters(self._root, time.time()))
            self._read_at = time.monotonic()
        return self._tracks


def read_meters(root: Path, now: float) -> tuple[RestoredHistories, float]:
    """What the files of the runs root hold at unix time `now`, and how many seconds its clock is behind that.

    Damage is passed over.
    """
    files = MeterFiles(instruments_dir(root))
    read = [files.read(tier, now)[0] for tier in TIERS]
    ahead = behind(read)
    return restore_histories(read, now, ahead), ahead


def tracks_of(found: RestoredHistories, ahead: float) -> Tracks:
    """What a strip is made of, in what was read; its clock is `ahead` seconds behind unix time."""
    lanes = {run: PhaseHistory() for run in found.spans}
    for run, spans in found.spans.items():
        lanes[run].begin_with(spans)
    busy, power = ({gpu: each for (what, gpu), each in found.cells.items() if what == it} for it in ("busy", "power"))
    return Tracks(found.names, busy, power, found.cells.get(("cpu", "")), lanes, tuple(found.names), ahead=ahead)
