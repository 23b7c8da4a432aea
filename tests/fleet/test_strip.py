"""Cells of a value over time: gathered, thinned with age, read back, with no peak lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mission_tui.fleet.strip import CELL_S, LEVELS, SLOW_LEVELS, Cell, CellAccumulator, CellHistory, merged

DAY_S = 86_400.0
percents = st.lists(st.integers(0, 100).map(float), min_size=1, max_size=300)


def look(t: float, value: float, seconds: float = 0.05) -> Cell:
    """One look at the value."""
    return Cell(t, value, value, value, seconds)


def filled(values: list[float], period: float = 0.05) -> CellHistory:
    """A history of samples `period` seconds apart from 0 on."""
    history = CellHistory()
    for index, value in enumerate(values):
        history.add(look(index * period, value))
    return history


def test_a_cell_is_given_back_when_the_next_begins() -> None:
    """Four looks in a quarter of a second become one cell with their least, mean and most."""
    gathering = CellAccumulator(CELL_S)
    given_back = [gathering.add(look(index / 16, value, 1 / 16)) for index, value in enumerate([0, 100, 20, 0, 7])]
    assert given_back == [None, None, None, None, Cell(0.0, 0.0, 30.0, 100.0, 0.25, 4)]
    assert gathering.open == Cell(0.25, 7.0, 7.0, 7.0, 1 / 16, 1)


def test_a_late_sample_counts_in_the_open_cell() -> None:
    """A clock that stepped back opens no second cell for the same time."""
    gathering = CellAccumulator(1.0)
    gathering.add(look(5.2, 10.0))
    assert gathering.add(look(4.9, 30.0)) is None
    assert gathering.take() == Cell(5.0, 10.0, 20.0, 30.0, 0.1, 2)
    assert gathering.open is None


def test_a_mean_is_of_time_not_of_looks() -> None:
    """Three hurried looks at a burst weigh no more than the second that it lasted."""
    hurried = [look(t, 100.0, seconds) for t, seconds in ((0.0, 0.5), (0.1, 0.25), (0.2, 0.25))]
    whole = merged(0.0, (*hurried, look(1.0, 0.0, 3.0)))
    assert whole is not None
    assert whole.mean == pytest.approx(25.0)


def test_nothing_merges_to_nothing() -> None:
    """There are no cells without a sample."""
    assert merged(3.0, ()) is None


@given(percents, st.integers(1, 40))
def test_thinning_keeps_least_mean_and_most(values: list[float], most: int) -> None:
    """However few cells are asked for: the extremes stay, and the mean of all samples."""
    cells = filled(values).between(0.0, len(values) * 0.05, most)
    whole = merged(0.0, cells)
    assert whole is not None
    assert len(cells) <= most
    assert (whole.least, whole.most, whole.looks) == (min(values), max(values), len(values))
    assert whole.mean == pytest.approx(sum(values) / len(values))


@given(percents)
def test_no_sample_is_counted_twice_or_lost(values: list[float]) -> None:
    """Every level tells of the same samples."""
    history = filled(values, period=3.0)
    for most in (10_000, 500, 100):
        assert sum(cell.looks for cell in history.between(0.0, len(values) * 3.0, most)) == len(values)


def test_a_moving_window_does_not_change_what_lies_in_it() -> None:
    """A cell that is old enough to be complete reads the same a moment later."""
    values = [float((index * 37) % 101) for index in range(2_000)]
    history = filled(values)
    before = history.between(0.0, 100.0, 60)
    history.add(look(100.0, 50.0))
    after = history.between(1.0, 101.0, 60)
    shared = {cell.t for cell in before[1:-1]} & {cell.t for cell in after[1:]}
    assert len(shared) > 40
    assert {cell.t: cell for cell in before if cell.t in shared} == {cell.t: cell for cell in after if cell.t in shared}


def test_a_day_of_eight_gpus_is_small_and_keeps_its_peak() -> None:
    """24 h of cells for 8 GPUs, their power and the processors take under 50 MB; an early burst is at its height."""
    history = CellHistory()
    for second in range(int(DAY_S)):
        t = float(second)
        history.add(look(t, 100.0 if t == 3_600.0 else 5.0, 1.0))
    cells = history.between(0.0, DAY_S, 1_440)
    assert len(cells) == 1_440
    assert max(cells, key=lambda cell: cell.most).t == 3_600.0
    assert sum(cell.looks for cell in cells) == DAY_S
    most = sum(round(span / width) + 256 for width, span in LEVELS)
    assert sum(len(history.complete(level, 0.0)) for level in range(len(LEVELS))) <= most
    assert 17 * most * 48 < 50e6


def test_a_restored_history_reads_as_the_one_that_was_kept() -> None:
    """Each level is given back as it was; what the coarse ones had not completed is made anew from the fine one."""
    kept, again = filled([float(index % 97) for index in range(12_000)], 0.25), CellHistory()
    again.restore([kept.complete(level, 0.0) for level in range(len(LEVELS))])
    for since in (0.0, 1_000.0, 2_900.0):
        assert again.between(since, 2_999.0, 60) == kept.between(since, 2_999.0, 60)
    again.add(look(3_000.0, 100.0))
    assert again.between(2_990.0, 3_001.0, 60)[-1].most == 100.0


def test_what_only_the_widest_cells_tell_is_found() -> None:
    """After hours without anybody the finer levels come back empty, and still say nothing of the time before."""
    history = CellHistory()
    history.restore(([], [], [Cell(10.0 * at, 0.0, 5.0, 9.0, 10.0, 5) for at in range(6)]))
    assert [cell.t for cell in history.finest(0.0, 1000.0)] == [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]


@pytest.mark.parametrize("begun", [20.0, 27.0, 29.0])
def test_what_was_kept_of_the_first_seconds_comes_back_as_finely(begun: float) -> None:
    """The wide cell in which everything begins holds no more than the fine ones, and does not stand for them."""
    history = CellHistory(SLOW_LEVELS)
    for second in range(20):
        history.add_constant(float(second), begun + second, 1.0)
    restored = CellHistory(SLOW_LEVELS)
    restored.restore([history.complete(level, 0.0) for level in range(len(SLOW_LEVELS))])
    assert list(restored.finest(0.0, 100.0)) == list(history.finest(0.0, 100.0))[:-1]
