"""The columns behind charts: blanks and NaNs, thinning, rewind."""

from __future__ import annotations

import copy
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.history.series import MAX_COLUMNS, MAX_POINTS, Columns
from tests.fleet.recorded import update


def columns(*values: float | str | None) -> Columns:
    """Columns whose `train/approx_kl` takes `values`, None for blank."""
    made = Columns()
    for number, value in enumerate(values, start=1):
        made.append(update(number) if value is None else update(number, approx_kl=value))
    return made


KL = "train/approx_kl"


def test_blank_and_nan_stay_different() -> None:
    """What was not logged is None, what was logged as NaN is NaN, and neither is 0."""
    tail = columns(0.5, None, "nan", 0.0, None).tail(KL, 60)
    assert (tail[0], tail[1], tail[3], tail[4]) == (0.5, None, 0.0, None)
    assert tail[2] is not None
    assert math.isnan(tail[2])


def test_few_rows_are_served_as_they_are() -> None:
    """With at least as many points as rows every row is a bucket of its own, with the digits it was written with."""
    thinned = columns(0.1, None, 0.3).thin([KL], 0, None, 500)
    assert thinned.updates == (1, 2, 3)
    assert thinned.low[KL] == thinned.high[KL] == (0.1, None, 0.3)


def test_buckets_hold_least_and_greatest() -> None:
    """No spike is lost by thinning, and x is the bucket's end."""
    thinned = columns(*[1.0] * 49, 9.0, *[1.0] * 48, -9.0, 1.0).thin([KL], 0, None, 10)
    assert thinned.updates == tuple(range(10, 101, 10))
    assert thinned.high[KL] == (1.0,) * 4 + (9.0,) + (1.0,) * 5
    assert thinned.low[KL] == (1.0,) * 9 + (-9.0,)


def test_a_nan_shows_through_thinning() -> None:
    """A bucket with a NaN is NaN; infinities travel by name."""
    thinned = columns(1.0, "nan", "-inf", 1.0).thin([KL], 0, None, 2)
    assert (thinned.low[KL], thinned.high[KL]) == (("nan", "-inf"), ("nan", 1.0))


def test_range_of_updates_is_inclusive() -> None:
    """`from_update` and `to_update` both belong to the range, and an empty range is empty."""
    made = columns(*map(float, range(1, 11)))
    assert made.thin([KL], 3, 5, 500).updates == (3, 4, 5)
    assert made.thin([KL], 11, None, 500).updates == ()
    assert made.thin([KL], 5, 3, 500).updates == ()


def test_points_are_bounded() -> None:
    """Asking for more points than allowed, or for none, is put right instead of refused."""
    made = columns(*[1.0] * (MAX_POINTS + 10))
    assert len(made.thin([KL], 0, None, 10**9).updates) == MAX_POINTS
    assert len(made.thin([KL], 0, None, 0).updates) == 1


def test_unknown_series_is_blank() -> None:
    """A series that the run never logged is a column of None of the same length."""
    assert columns(1.0, 2.0).thin(["train/none"], 0, None, 10).low["train/none"] == (None, None)


def test_rewind_forgets_later_rows_and_their_nans() -> None:
    """After a rewind new rows follow the ones that still count."""
    made = columns(0.1, "nan", "nan", 0.4)
    made.rewind(2)
    made.append(update(3))
    made.append(update(4, approx_kl=0.5))
    assert made.thin([KL], 0, None, 10).low[KL] == (0.1, "nan", None, 0.5)


def test_last_row_comes_back_as_it_was_written() -> None:
    """The row a rewind lands on is told again with its metrics."""
    row = columns(0.1, 0.0123456, 0.3)
    row.rewind(2)
    last = row.last_row(attempt=2, seq=9)
    assert last is not None
    assert (last.update, last.metrics, last.steps_per_s) == (2, {KL: 0.0123456}, 1000.0)


def test_rows_out_of_order_are_ignored() -> None:
    """An update that is not later than the last one was said already."""
    made = columns(0.1, 0.2)
    made.append(update(2, approx_kl=0.9))
    assert made.tail(KL, 60) == columns(0.1, 0.2).tail(KL, 60)


def test_names_beyond_the_limit_are_not_charted() -> None:
    """A trainer that invents metric names cannot fill the memory."""
    made = Columns()
    made.append(update(1, tags={f"made_up_{number}": 1.0 for number in range(1000)}))
    assert len(made.names) == MAX_COLUMNS


def test_keeping_the_last_rows_keeps_their_nans() -> None:
    """Letting go of early rows moves the later ones without mixing up blank and NaN."""
    made = columns(*[1.0] * 10, None, "nan", 2.0)
    made.keep_last(3)
    tail = made.tail(KL, 60)
    assert (len(made), tail[0], tail[2]) == (3, None, 2.0)
    assert tail[1] is not None
    assert math.isnan(tail[1])


def test_a_value_measured_after_an_update_joins_its_row() -> None:
    """An evaluation belongs to the row that was played, however many came meanwhile; a row that has gone gets none."""
    made = columns(0.1, 0.2, 0.3)
    made.annotate(3, "eval/mean_reward", 7.0)
    made.annotate(1, "eval/mean_reward", 8.0)
    assert made.tail("eval/mean_reward", 60) == (8.0, None, 7.0)
    made.keep_last(1)
    made.annotate(2, "eval/mean_reward", 9.0)
    made.annotate(4, "eval/mean_reward", 9.0)
    assert made.tail("eval/mean_reward", 60) == (7.0,)


def test_steps_between_two_moments_are_those_of_its_updates_and_parts_of_them() -> None:
    """An update's steps are spread over its time; where the rows do not reach back nobody knows."""
    columns = Columns()
    for number in (1, 2, 3):
        columns.append(UpdateDone(number, 1, number, 100 * number, 10.0 * number, 8.0, 2.0, 10.0))
    assert columns.steps_between(0.0, 100.0) == 300
    assert columns.steps_between(15.0, 22.0) == 70
    assert columns.steps_between(30.0, 40.0) == 0
    later = Columns()
    later.append(UpdateDone(9, 1, 9, 900, 90.0, 8.0, 2.0, 10.0))
    assert later.steps_between(50.0, 95.0) is None
    assert Columns().steps_between(0.0, 1.0) is None


@given(
    st.lists(st.one_of(st.none(), st.just("nan"), st.floats(-1e6, 1e6, width=32)), min_size=1, max_size=300),
    st.lists(st.tuples(st.integers(1, 300), st.integers(1, 40)), max_size=3),
)
def test_extremes_that_are_kept_are_those_of_the_cells(
    values: list[float | str | None], again: list[tuple[int, int]]
) -> None:
    """Whatever was asked before, taken back and written again, or forgotten at the front."""
    made = columns(*values)
    made.thin([KL], 0, None, 3)
    for back, points in again:
        made.rewind(back)
        for number in range(back + 1, back + points):
            made.append(update(number, approx_kl=float(number)))
        fresh = copy.deepcopy(made)
        for column in fresh._columns.values():
            column._forget_blocks(0)
        assert made.thin([KL], 0, None, points) == fresh.thin([KL], 0, None, points)
        made.keep_last(back)
    cells = [made._columns[KL].at(at) for at in range(len(made))] if KL in made.names else []
    known = [cell for cell in cells if cell is not None]
    if known and not any(map(math.isnan, known)):
        whole = made.thin([KL], 0, None, 1)
        assert [whole.low[KL][0], whole.high[KL][0]] == pytest.approx([min(known), max(known)])


CELL = st.sampled_from([1.5, 0.25, "nan", "inf", math.nan])
ROW = st.dictionaries(st.sampled_from(["train/a", "train/b", "train/c"]), CELL)
STEP = st.one_of(
    st.lists(ROW, min_size=1, max_size=2).map(lambda rows: rows * 3),
    st.tuples(st.sampled_from(["rewind", "keep", "annotate"]), st.integers(0, 9)),
)


@given(st.lists(STEP, max_size=12))
def test_every_cell_is_in_the_row_that_said_it(steps: list[list[dict[str, float | str]] | tuple[str, int]]) -> None:
    """Whatever names the rows before had, and whatever was taken back, forgotten or added since."""
    made, rows = Columns(), list[dict[str, float | str]]()
    first = 1
    for step in steps:
        if isinstance(step, list):
            for said in step:
                rows.append(dict(said))
                made.append(update(first - 1 + len(rows), tags=dict(said)))
        elif step[0] == "rewind":
            made.rewind(first - 1 + step[1])
            del rows[step[1] :]
        elif step[0] == "keep":
            first += max(0, len(rows) - step[1])
            made.keep_last(step[1])
            rows = rows[max(0, len(rows) - step[1]) :]
        elif step[1] < len(rows):
            made.annotate(first + step[1], "train/b", 7.0)
            rows[step[1]]["train/b"] = 7.0
    for name in ("train/a", "train/b", "train/c"):
        wanted = tuple(float(row[name]) if name in row else None for row in rows)
        assert made.tail(name, len(rows)) == pytest.approx(wanted, nan_ok=True)
    assert made.tail("update_s", len(rows)) == (0.25,) * len(rows)
