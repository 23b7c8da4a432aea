"""A strip as rows of one width, for scripts: no peak lost, shares that add up, gaps without a row."""

from __future__ import annotations

import pytest

from mission_tui.cli.tables.top import strip_rows
from mission_tui.fleet.strip import Cell, GpuTrack, Lane, Span, Strip

T = 1_795_257_600.0


def test_rows_hold_peaks_means_and_shares() -> None:
    """A burst of a quarter of a second, 70 W, and a run that did three quarters rollout."""
    busy = tuple(Cell(T + quarter / 4 + 0.1, 0.0, 5.0, 97.0 if quarter == 6 else 8.0, 0.25, 5) for quarter in range(16))
    strip = Strip(
        since=T,
        until=T + 4.5,
        gpus=(GpuTrack(uuid="GPU-a", name="G", busy=busy, power=(Cell(T - 1.0, 70.0, 70.0, 70.0, 3.0),)),),
        cpu=(Cell(T, 10.0, 10.0, 10.0, 1.0), Cell(T + 1.0, 50.0, 50.0, 50.0, 1.0)),
        lanes=(
            Lane(run="r", name="heavy", spans=(Span("rollout", T + 1.0, T + 2.5), Span("update", T + 2.5, T + 3.0))),
        ),
    )
    rows = list(strip_rows(strip, 2.0))
    assert [(row.t - T, row.what) for row in rows] == [
        (0.0, "gpu"),
        (0.0, "host"),
        (0.0, "run"),
        (2.0, "gpu"),
        (2.0, "run"),
    ]
    gpu, host, run = rows[:3]
    assert gpu.busy is not None
    assert (gpu.busy.most, gpu.busy.mean, gpu.power_w) == (97.0, 5.0, 70.0)
    assert (host.cpu_percent, run.phases) == (30.0, {"rollout": 50.0})
    assert (rows[3].power_w, rows[4].phases) == (None, {"rollout": 25.0, "update": 25.0})


def test_rows_of_strips_one_after_the_other_continue_each_other() -> None:
    """Every look counts once, though the strips end within cells; a row that is not whole waits for the next strip."""
    cells = tuple(Cell(T + quarter / 4 + 0.13, 0.0, 5.0, 8.0, 0.25, 1) for quarter in range(-8, 60))
    gpu = GpuTrack(uuid="GPU-a", name="G", busy=cells)
    parts = [Strip(since=T + at, until=T + end, gpus=(gpu,)) for at, end in ((0.0, 4.0), (4.0, 7.9), (7.0, 12.0))]
    rows = [row for strip in parts for row in strip_rows(strip, 1.0)]
    assert [row.t for row in rows] == [T + second for second in range(12)]
    assert sum(row.busy.looks for row in rows if row.busy is not None) == pytest.approx(48)
    assert list(strip_rows(Strip(since=T + 0.1, until=T + 0.9, gpus=(gpu,)), 1.0)) == []
