"""Meters of a moment of the last day, from files as a supervisor writes them."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from mission_tui.fleet.strip import Cell
from mission_tui.records.meter_history import TIERS, CellsRecord, Kept, MeterFiles
from mission_tui.records.runs.layout import instruments_dir
from mission_tui.supervisor.readonly.meters import NO_GPU, NO_METERS, PastMeters

NOW = 0.0
"""The time of the test that runs: files are kept for so long from now on, and modules are loaded long before."""


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "NOW", time.time() // 10 * 10)


def kept(root: Path, tier_at: int, begun: float, **tracks: tuple[Cell, ...]) -> None:
    """A file of a tier, begun at `begun`, with cells of tracks."""

    def maker(track: str, cells: tuple[Cell, ...], seq: int) -> Kept:
        gpu, name = ("", "") if track == "cpu" else ("GPU-a", "Stand-in")
        return CellsRecord(seq, track, gpu, name, cells)

    makers = [partial(maker, track, cells) for track, cells in tracks.items()]
    MeterFiles(instruments_dir(root)).append(TIERS[tier_at], begun, makers)


def meters(root: Path, tier_at: int, begun: float, width: float, **values: tuple[float, float | None]) -> None:
    """A file of a tier with three hundred seconds of meters that stand still: value and total of each."""

    def maker(track: str, value: float, total: float | None, seq: int) -> Kept:
        gpu, name = ("GPU-a", "Stand-in") if track in ("vram", "temperature") else ("", "")
        count = round(300 / width)
        steady = tuple(Cell(begun + at * width, value, value, value, width, 5) for at in range(count))
        return CellsRecord(seq, track, gpu, name, steady, total)

    makers = [partial(maker, track, value, total) for track, (value, total) in values.items()]
    MeterFiles(instruments_dir(root)).append(TIERS[tier_at], begun, makers)


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
    past = PastMeters(tmp_path)
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
    host, (gpu,) = PastMeters(tmp_path).meters_at(moment + 4) or pytest.fail("nothing is known")
    assert (host.cpu_percent, gpu.util.now, gpu.util.max) == (5.0, 5.0, 9.0)
    assert len(gpu.history) == 60
    assert sum(value == 90.0 for value in gpu.history) == 10


def test_a_gap_is_no_meter(tmp_path: Path) -> None:
    """While no supervisor was there, before the first and after the last cell nothing is shown."""
    kept(tmp_path, 1, NOW - 600, cpu=(*cells(NOW - 600, NOW - 500, 1.0), *cells(NOW - 400, NOW - 300, 1.0)))
    past = PastMeters(tmp_path)
    for moment in (NOW - 700, NOW - 450, NOW - 290, NOW):
        assert past.meters_at(moment) is None, moment - NOW
    host, gpus = past.meters_at(NOW - 350) or pytest.fail("nothing is known")
    assert (host.cpu_percent, host.gpu_note, gpus) == (5.0, NO_GPU, ())
    assert len((past.meters_at(NOW - 390) or pytest.fail("nothing is known"))[0].cpu_history) == 11


def test_before_the_first_meter_it_is_said_when_that_was(tmp_path: Path) -> None:
    """In a gap, and of what was so long ago that it is not kept, the other reason is given."""
    kept(tmp_path, 1, NOW - 600, cpu=(*cells(NOW - 600, NOW - 500, 1.0), *cells(NOW - 400, NOW - 300, 1.0)))
    past = PastMeters(tmp_path)
    assert time.strftime("%H:%M:%S", time.localtime(NOW - 600)) in past.why_none(NOW - 604)
    assert {past.why_none(moment) for moment in (NOW - 100_000, NOW - 450)} == {NO_METERS}
    assert past.why_none(NOW).startswith("no meters of this moment are written yet: the newest are of ")
    assert PastMeters(tmp_path / "empty").why_none(NOW) == NO_METERS


def test_without_files_nothing_is_known(tmp_path: Path) -> None:
    """A runs root of before, or one whose files were deleted."""
    assert PastMeters(tmp_path).meters_at(NOW) is None


@pytest.mark.parametrize(("ago_s", "tier_at", "width"), [(600, 1, 10.0), (18_000, 2, 60.0)])
def test_memory_disk_load_and_heat_are_those_of_the_moment(
    tmp_path: Path, ago_s: int, tier_at: int, width: float
) -> None:
    """Of the last hours by ten seconds, of the day by the minute; and nothing of them where they end."""
    since = (NOW - ago_s) // 60 * 60
    ours = {"ram": (9e9, 24e9), "swap": (1e6, 2e9), "disk": (4e10, None), "load": (1.25, None)}
    meters(tmp_path, tier_at, since, width, **ours, vram=(5e9, 8e9), temperature=(61.0, None))
    past = PastMeters(tmp_path)
    host, (gpu,) = past.meters_at(since + 100.0) or pytest.fail("nothing is known")
    assert (host.ram_used, host.ram_total, host.swap_used, host.swap_total) == (9 * 10**9, 24 * 10**9, 10**6, 2 * 10**9)
    assert (host.disk_free, host.load_1m, host.cpu_percent) == (4 * 10**10, 1.25, None)
    assert (gpu.name, gpu.memory_used, gpu.memory_total, gpu.temperature_c) == ("Stand-in", 5 * 10**9, 8 * 10**9, 61.0)
    assert past.meters_at(since + 320.0) is None


def test_a_recording_of_before_has_dashes_for_them(tmp_path: Path) -> None:
    """Processors alone were kept once: what is not there is not known, and is no zero."""
    kept(tmp_path, 1, NOW - 600, cpu=cells(NOW - 600, NOW, 1.0))
    host, gpus = PastMeters(tmp_path).meters_at(NOW - 300) or pytest.fail("nothing is known")
    assert host.cpu_percent == 5.0
    assert (host.ram_used, host.swap_used, host.disk_free, host.load_1m, gpus) == (None, None, None, None, ())


def test_cells_of_a_clock_of_their_own_stay_where_they_were(tmp_path: Path) -> None:
    """Cells begin at whole seconds of a monotonic clock: a wide one of before must not cover the fine ones after it."""
    since = NOW - 93.405
    kept(tmp_path, 1, since, cpu=tuple(Cell(since + at, 7.0, 7.0, 7.0, 1.0) for at in range(9, 13)))
    kept(tmp_path, 2, since, cpu=(Cell(since, 5.0, 5.0, 5.0, 1.0),))
    past = PastMeters(tmp_path)
    for at in range(10, 13):
        host, _ = past.meters_at(since + at + 0.6) or pytest.fail("nothing is known")
        assert host.cpu_percent == 7.0
