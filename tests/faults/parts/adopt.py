"""How soon a killed supervisor's successor has its eight runs back, alone and beside five thousand old runs.

A round is one SIGKILL. The clock runs from the signal to the moment when a client has seen all eight connected.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.faults.campaign.part import Part, Tell, Violation
from tests.supervisor.conftest import Lab, opened_lab
from tests.waiting import until

__all__ = ["PART", "old_runs"]

RECORDED = next((Path(__file__).parents[2] / "fixtures" / "format-1").iterdir())
RUNS, OLD = 8, 5000
WITHIN_S = {0: 3.0, OLD: 10.0}
ROUNDS_EACH = 10


def old_runs(root: Path, count: int) -> None:
    """Put `count` runs that have ended under `root`: the recorded one, its files linked."""
    for number in range(count):
        run = root / f"20260101-{number // 60 % 60:02d}{number % 60:02d}00-old-{number:04x}"
        shutil.copytree(
            RECORDED, run, copy_function=os.link, ignore=shutil.ignore_patterns("checkpoints"), dirs_exist_ok=True
        )


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    del seed
    pending = iter(rounds)
    index = next(pending, None)
    while index is not None:
        turn = index // ROUNDS_EACH
        old = OLD if turn % 2 else 0  # alone and beside them by turns
        # Links need the recorded run's file system.
        with tempfile.TemporaryDirectory(prefix=".faults-", dir=RECORDED.parents[3]) as name:
            root = Path(name) / "runs"
            root.mkdir()
            old_runs(root, old)
            with opened_lab(root) as lab:
                lab.start()
                before = _pids(lab, lab.launch(RUNS, STUB_UPDATE_S="0.2"))
                while index is not None and index // ROUNDS_EACH == turn:
                    yield from (f"round {index}: {found}" for found in _adopt(lab, before, old, tell))
                    index = next(pending, None)


def _pids(lab: Lab, runs: list[str]) -> dict[str, int | None]:
    return {run: lab.running(run).pids.trainer for run in runs}


def _adopt(lab: Lab, before: dict[str, int | None], old: int, tell: Tell) -> Iterator[Violation]:
    lab.kill_supervisor()
    killed = time.monotonic()
    lab.supervisor = lab.spawn()

    def back() -> bool:
        views = [view for view in lab.snapshot().runs if view.id in before]
        return len(views) == len(before) and all(view.connected and view.state == "running" for view in views)

    until(lambda: lab.answers() and back(), 60, "all runs are back")
    seconds = time.monotonic() - killed
    if seconds > WITHIN_S[old]:
        yield f"{len(before)} runs beside {old} old ones were back after {seconds:.1f} s"
    if {view.id: view.pids.trainer for view in lab.snapshot().runs if view.id in before} != before:
        yield "another trainer than before"
    tell(f"adoptions beside {old:,} old runs", 1)
    tell(f"ms for all of those beside {old:,}", round(seconds * 1000))


PART = Part("adopt", ("S1",), 4 * ROUNDS_EACH, _run)
