"""The return of an ended run for a line of a list: read from its file without its rows being kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.fleet.events.journal import ClockStepped
from mission_tui.fleet.events.metrics import RETURN, UpdateDone
from mission_tui.fleet.events.processes import PhaseSeen
from mission_tui.fleet.history.course import MOST_STRETCHES
from mission_tui.fleet.phases import PhaseHistory
from mission_tui.fleet.store import Store
from mission_tui.ipc.requests import GetHistory, GetStrip
from mission_tui.records.jsonl import encode_line
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.readonly.history import Tracks, history, strip_of
from mission_tui.supervisor.runs.registry import Lanes
from mission_tui.supervisor.runs.run_on_disk import show_end
from tests.supervisor.runs.test_run_on_disk import RUN, climb, ended, rows, start

UPDATES = 3000
ASKED = GetHistory(id=1, run=RUN, series=(RETURN,), points=MOST_STRETCHES)


class Catalog:
    """A store of one ended run, with its directory."""

    def __init__(self, store: Store, path: Path) -> None:
        self.store, self.live = store, frozenset[str]()
        self.fetch: Callable[[str], None] = lambda _: None
        self._path = path

    def run_dir(self, run_id: str) -> RunDir:
        return RunDir(self._path / run_id)

    def record_size(self, run_id: str, size_bytes: int) -> None: ...


async def test_a_list_learns_the_whole_return_of_an_ended_run_and_its_rows_are_not_kept(tmp_path: Path) -> None:
    """Course, best and goal are those of a store that saw every row; of the rows no more stay than before."""
    file = rows(start(), *climb(1, UPDATES))
    (tmp_path / RUN).mkdir()
    (tmp_path / RUN / "metrics.jsonl").write_bytes(b"".join(map(encode_line, file)))
    seen, shown = ended(), ended()
    seen.apply_all(RUN, file)
    show_end(shown, RUN, file[-70:])
    kept = len(shown.run(RUN).metrics.columns)
    assert shown.view(RUN).course is None

    reply = await history(Catalog(shown, tmp_path), ASKED)

    view, whole = shown.view(RUN), seen.view(RUN)
    assert (view.course, view.best, view.goal) == (whole.course, whole.best, whole.goal)
    assert len(shown.run(RUN).metrics.columns) == kept
    assert not shown.run(RUN).metrics.complete
    assert (reply.low[RETURN][0], reply.high[RETURN][-1]) == (1.0, float(UPDATES))


async def test_a_chart_of_the_return_still_has_every_row(tmp_path: Path) -> None:
    """More points than a line has are asked for by who draws a chart, and further questions will follow."""
    file = rows(start(), *climb(1, 200))
    (tmp_path / RUN).mkdir()
    (tmp_path / RUN / "metrics.jsonl").write_bytes(b"".join(map(encode_line, file)))
    store = ended()
    reply = await history(Catalog(store, tmp_path), structs.replace(ASKED, points=500))
    assert len(reply.updates) == 200
    assert store.run(RUN).metrics.complete


@pytest.mark.parametrize(("device", "gpu"), [("cpu", ""), ("cuda", "GPU-a"), ("", "GPU-a")])
def test_a_run_that_came_to_the_cpu_has_no_part_in_the_gpu(device: str, gpu: str) -> None:
    """Its updates keep no GPU busy, and its energy is not that of one; where it is not known "auto" may have."""
    store, phases = ended(), PhaseHistory()
    store.apply_all(RUN, rows(structs.replace(start(), device=device), *climb(1, 3)))
    phases.entered("rollout", 100.0)
    phases.entered("update", 110.0)
    phases.entered("rollout", 120.0)
    tracks = Tracks({"GPU-a": "G"}, {}, {}, None, {RUN: phases}, ("GPU-a",))
    (lane,) = strip_of(tracks, store, GetStrip(id=1, seconds=60.0), 150.0).lanes
    assert lane.gpu == gpu


@pytest.mark.parametrize(
    ("by_s", "shown"),
    [
        (1000.0, [(0.0, 3.0), (3.0, 4.0), (4.0, 6.0), (1006.0, 1007.0), (1007.0, 1008.0)]),
        (-900.0, [(-896, -893), (-893, -892)]),
    ],
)
def test_a_clock_that_was_set_lengthens_no_phase_and_hides_none(by_s: float, shown: list[tuple[float, float]]) -> None:
    """Time that no process has lived through is in no phase; what comes after a step back is there."""
    lanes, t = Lanes(), 1e9
    lanes.take(RUN, PhaseSeen("rollout", t))
    lanes.take(RUN, UpdateDone(1, 1, 1, 64, t + 4.0, 3.0, 1.0, 16.0, {}))
    lanes.take(RUN, PhaseSeen("rollout", t + 4.0))
    lanes.take(RUN, ClockStepped(1, t + 6.0 + by_s, 1, by_s))
    lanes.take(RUN, UpdateDone(2, 1, 2, 128, t + 8.0 + by_s, 3.0, 1.0, 16.0, {}))
    spans = lanes.histories[RUN].between(t - 1000.0, t + 2000.0, 1 << 20)
    assert [(span.since - t, span.until - t) for span in spans] == shown
