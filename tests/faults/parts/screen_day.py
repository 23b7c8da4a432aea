"""Twenty-four hours of the screen, played as fast as it draws: its memory stays where it was.

A round is an hour; every other begins with a tour of all screens. What caches fill in the first minutes is the start; a
campaign that goes on begins a new day.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator

from tests.faults.campaign.part import Part, Tell, Violation
from tests.faults.hostile.reach import screens_of_the_program
from tests.faults.long_day import HOUR_S, STEP_S, UNSEEN

__all__ = ["MOST_BYTES", "PART"]

MOST_BYTES = 5 << 20


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    del seed
    # Textual paints at most so often a second, by a real clock.
    environ = {**os.environ, "TEXTUAL_FPS": "1000"}
    day = [sys.executable, "-m", "tests.faults.long_day"]
    with subprocess.Popen(day, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        before = start = json.loads(child.stdout.readline())
        unseen = screens_of_the_program() - UNSEEN - set(start["screens"])
        if unseen:
            yield f"nobody went to {', '.join(sorted(unseen))}"
        tell("screens", len(start["screens"]))
        for index in rounds:
            print(file=child.stdin, flush=True)
            now = json.loads(child.stdout.readline())
            tell("snapshots", HOUR_S // STEP_S)
            tell("pictures", now["drawn"] - before["drawn"])
            tell("KB more than at the start", (now["rss_bytes"] - before["rss_bytes"]) // 1024)
            before = now
            if now["rss_bytes"] > start["rss_bytes"] + MOST_BYTES:
                yield f"hour {index}: {(now['rss_bytes'] - start['rss_bytes']) / 1e6:.1f} MB more than at the start"
        child.stdin.close()


PART = Part("screen-day", ("T8",), 24, _run)
