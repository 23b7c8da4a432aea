"""The strip in columns: one axis for all, no peak lost whatever the zoom, no past that flickers."""

from __future__ import annotations

import random

import pytest

from mission_tui.fleet.strip import Cell, Span
from mission_tui.tui.state.timeline import (
    axis_of,
    busy_columns,
    busy_over,
    phase_columns,
    phase_shares,
    update_share,
)
from tests.tui.fleets import NOW
from tests.tui.strips import cells, phases

ZOOMS = [(15.0, 133), (60.0, 133), (300.0, 133), (300.0, 20), (86_400.0, 133), (15.0, 4)]


@pytest.mark.parametrize(("seconds", "columns"), ZOOMS)
def test_no_peak_is_lost_by_zooming(seconds: float, columns: int) -> None:
    """One busy cell anywhere on the axis is a peak of its column, and of the whole, at every zoom."""
    chance = random.Random(7)
    width = max(0.25, seconds / 1200)
    for _ in range(50):
        axis = axis_of(NOW + chance.random() * 100, seconds, columns)
        at = axis.since + chance.random() * (seconds - seconds / columns - width)
        quiet = [Cell(at + n * width, 0.0, 1.0, 2.0, width) for n in range(-3, 4) if n]
        drawn = busy_columns([*quiet[:3], Cell(at, 0.0, 40.0, 97.0, width), *quiet[3:]], axis)
        peaks = [place for place, column in enumerate(drawn) if column and column.peak == 97.0]
        assert int((at - axis.since + 1e-3) / axis.width_s) in peaks
        assert max(column.peak for column in drawn if column) == 97.0


@pytest.mark.parametrize(("seconds", "columns"), ZOOMS[:4])
def test_a_burst_and_its_update_stand_in_the_same_columns(seconds: float, columns: int) -> None:
    """What a GPU did in updates alone is seen where the lane has updates, and nowhere else."""
    axis = axis_of(NOW, seconds, columns)
    spans = phases(NOW - seconds * 1.1, NOW)
    # Bursts that fill whole cells, so that a cell says no more than its phase does.
    spans = tuple(Span(span.phase, round(span.since * 4) / 4, round(span.until * 4) / 4) for span in spans)
    busy, lane = busy_columns(cells(spans, NOW - seconds * 1.1, NOW), axis), phase_columns(spans, axis)
    for place in range(columns):
        column, told = busy[place], update_share(lane[place])
        if column is None or told is None:
            assert (column is None) == (told is None)
        else:
            assert column.mean == pytest.approx(100 * told, abs=0.5)


def test_a_square_wave_keeps_its_mean_and_peak_at_every_zoom() -> None:
    """0.3 s busy every 2 s is 15 % on average and 100 % at its peak, however it is cut."""
    found = cells(phases(NOW - 1000, NOW), NOW - 1000, NOW)
    for seconds, columns in ZOOMS[1:4]:
        whole = busy_over(found, axis_of(NOW, seconds, columns))
        assert whole is not None
        assert whole.mean == pytest.approx(15.0, abs=1.0)
        assert whole.peak == 100.0


def test_what_is_past_keeps_its_column_while_time_goes_on() -> None:
    """Half a column later nothing has moved; a whole one later everything has, by one, and is the same."""
    found, spans = cells(phases(NOW - 90, NOW), NOW - 90, NOW), phases(NOW - 90, NOW)
    width = 60.0 / 120
    before, soon, later = (axis_of(NOW - 5 + shift, 60.0, 120) for shift in (0.2 * width, 0.7 * width, 1.2 * width))
    assert busy_columns(found, before) == busy_columns(found, soon)
    assert busy_columns(found, before)[1:] == busy_columns(found, later)[:-1]
    assert phase_columns(spans, before)[1:] == phase_columns(spans, later)[:-1]


def test_a_jitter_of_clocks_moves_nothing() -> None:
    """Edges that are a millisecond off stay in the columns that they belong to."""
    axis = axis_of(NOW, 60.0, 120)
    edge = axis.since + 30 * axis.width_s
    for off in (-0.001, 0.0, 0.001):
        drawn = busy_columns([Cell(edge + off, 0.0, 50.0, 100.0, axis.width_s)], axis)
        assert [place for place, column in enumerate(drawn) if column] == [30]


def test_a_gap_is_a_gap() -> None:
    """Where nobody looked or heard there is nothing, before, between and after."""
    axis = axis_of(NOW, 60.0, 60)
    found = [Cell(NOW - 50, 0.0, 5.0, 9.0, 1.0), Cell(NOW - 20, 0.0, 5.0, 9.0, 1.0)]
    assert sum(column is not None for column in busy_columns(found, axis)) == 2
    spans = [Span("rollout", NOW - 50, NOW - 40), Span("update", NOW - 20, NOW - 10)]
    lane = phase_columns(spans, axis)
    assert sum(bool(column) for column in lane) == 20
    assert phase_shares(lane) == {"rollout": pytest.approx(10.0), "update": pytest.approx(10.0)}
    assert busy_over([], axis) is None


def test_fewer_looks_on_a_busy_machine_are_no_holes() -> None:
    """A quarter second that was watched for a tenth is drawn whole; one that was not watched at all stays blank."""
    axis = axis_of(NOW, 15.0, 120)
    found = [Cell(NOW - 10 + 0.25 * at, 0.0, 5.0, 9.0, 0.1) for at in range(20) if at != 7]
    blank = [place for place, column in enumerate(busy_columns(found, axis)) if column is None and 40 <= place < 78]
    assert blank == [53, 54, 55], "the last one before the hole ends with its looks"
