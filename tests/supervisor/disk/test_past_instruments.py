"""Meters of a moment of the last day, from files as a supervisor writes them."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from mission_tui.fleet.strips.cells import Cell
from mission_tui.records.instruments import TIERS, CellsKept, InstrumentFiles, Kept
from mission_tui.records.runs.layout import instruments_dir
from mission_tui.supervisor.disk.past_instruments import NO_GPU, PastInstruments

NOW = time.time() // 10 * 10


def kept(root: Path, tier_at: int, begun: float, **tracks: tuple[Cell, ...]) -> None:
    """A file of a tier, begun at `begun`, with cells of tracks."""

    def maker(track: str, cells: tuple[Cell, ...], seq: int) -> Kept:
        gpu, name = ("", "") if track == "cpu" else ("GPU-a", "Stand-in")
        return CellsKept(seq, track, gpu, name, cells)

    makers = [partial(maker, track, cells) for track, cells in tracks.items()]
    InstrumentFiles(instruments_dir(root)).append(TIERS[tier_at], begun, makers)


def cells(since: float, until: float, width: float, *, burst_at: float = 0.0) -> tuple[Cell, ...]:
    """5 % all the time, with a peak of 90 % in the cell that covers `burst_at`."""
    count = round((until - since) / width)
    begins = (since + at * width for at in range(count))
    return tuple(Cell(t, 0.0, 5.0, 90.0 if t <= burst_at < t + width else 9.0, width, 5) for t in begins)


def test_a_moment_of_the_last_minutes_is_known_finely(tmp_path: Path) -> None:
    """Now, mean and peak of twenty seconds, the last minute, the power: the meters of that second."""
    since, moment = NOW - 300, NOW - 100
    kept(tmp_path, 0, since, busy=cells(since, NOW, 0.25, burst_at=moment - 10))
    kept(tmp_path, 1, since, cpu=cells(since, NOW, 1.0), power=cells(since, NOW, 1.0))
    past = PastInstruments(tmp_path)
    host, (gpu,) = past.meters_at(moment) or pytest.fail("nothing is known")
    assert (host.cpu_percent, len(host.cpu_history), host.gpu_note) == (5.0, 60, "")
    assert (gpu.name, gpu.util.now, gpu.util.max, gpu.power_w) == ("Stand-in", 5.0, 90.0, 5.0)
    assert gpu.util.mean == pytest.approx(5.0)
    assert (len(gpu.history), gpu.history.index(90.0)) == (60, 49)
    _, (later,) = past.meters_at(moment + 30) or pytest.fail("nothing is known")
    assert (later.util.max, max(later.history)) == (9.0, 90.0)


def test_a_moment_of_hours_ago_is_known_from_wide_cells(tmp_path: Path) -> None:
    """A sparkline is as long as ever, and a peak is in it."""
    since, moment = NOW - 20_000, NOW - 18_000
    kept(tmp_path, 2, since, busy=cells(since, NOW, 10.0, burst_at=moment - 15), cpu=cells(since, NOW, 10.0))
    host, (gpu,) = PastInstruments(tmp_path).meters_at(moment + 4) or pytest.fail("nothing is known")
    assert (host.cpu_percent, gpu.util.now, gpu.util.max) == (5.0, 5.0, 9.0)
    assert len(gpu.history) == 60
    assert sum(value == 90.0 for value in gpu.history) == 10


def test_a_gap_is_no_meter(tmp_path: Path) -> None:
    """While no supervisor was there, before the first and after the last cell nothing is shown."""
    kept(tmp_path, 1, NOW - 600, cpu=(*cells(NOW - 600, NOW - 500, 1.0), *cells(NOW - 400, NOW - 300, 1.0)))
    past = PastInstruments(tmp_path)
    for moment in (NOW - 700, NOW - 450, NOW - 290, NOW):
        assert past.meters_at(moment) is None, moment - NOW
    host, gpus = past.meters_at(NOW - 350) or pytest.fail("nothing is known")
    assert (host.cpu_percent, host.gpu_note, gpus) == (5.0, NO_GPU, ())
    assert len((past.meters_at(NOW - 390) or pytest.fail("nothing is known"))[0].cpu_history) == 11


def test_without_files_nothing_is_known(tmp_path: Path) -> None:
    """A runs root of before, or one whose files were deleted."""
    assert PastInstruments(tmp_path).meters_at(NOW) is None
