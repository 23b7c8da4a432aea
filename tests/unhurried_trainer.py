"""The real trainer, with a tenth of a second before each rollout.

For tests whose runs have to be there, and are to save and to go on exactly, but not to learn: beside what a test waits
for, a small training would take a whole core.
"""

from __future__ import annotations

import sys
import time

from mission_tui.fleet.events.outcome import Phase
from mission_tui.trainer import process
from mission_tui.trainer.__main__ import main
from mission_tui.trainer.record import Record

PAUSE_S = 0.1
_say = Record.phase


def _say_unhurriedly(self: Record, phase: Phase) -> None:
    if phase == "rollout":
        time.sleep(PAUSE_S)
    _say(self, phase)


if __name__ == "__main__":
    Record.phase = _say_unhurriedly  # type: ignore[method-assign]
    process.outlive_full_disk()
    sys.exit(main(sys.argv[1:]))
