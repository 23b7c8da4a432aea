"""The strip as the files of a supervisor tell of it, for somebody who only looks; some seconds behind."""

from __future__ import annotations

import time
from pathlib import Path

from mission_tui.fleet.phases import PhaseHistory
from mission_tui.records.instruments import TIERS, InstrumentFiles
from mission_tui.records.layout import instruments_dir
from mission_tui.supervisor.verbs.strip import Tracks
from mission_tui.supervisor.watching.remembered import remember

__all__ = ["SeenInstruments"]

FRESH_S = 5.0


class SeenInstruments:
    """Reads the files when somebody asks, and not again for a few seconds."""

    def __init__(self, root: Path) -> None:
        self._files = InstrumentFiles(instruments_dir(root))
        self._tracks: Tracks | None = None
        self._read_at = float("-inf")

    def tracks(self) -> Tracks:
        """What the files hold of the last day, on unix time. Damage and what may not be read are passed over."""
        if self._tracks is None or time.monotonic() - self._read_at > FRESH_S:
            now = time.time()
            found = remember([self._files.read(tier, now)[0] for tier in TIERS], now, 0.0)
            lanes = {run: PhaseHistory() for run in found.spans}
            for run, spans in found.spans.items():
                lanes[run].begin_with(spans)
            busy, power = (
                {gpu: each for (what, gpu), each in found.cells.items() if what == it} for it in ("busy", "power")
            )
            here = tuple(found.names)
            self._tracks = Tracks(found.names, busy, power, found.cells.get(("cpu", "")), lanes, here)
            self._read_at = time.monotonic()
        return self._tracks
