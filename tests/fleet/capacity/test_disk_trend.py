"""When the disk will be full: by the pace of the last hours, and nothing while that is not known."""

from __future__ import annotations

import pytest

from mission_tui.supervisor.host.machine import DiskTrend, TimeToFull

GIB = 1 << 30


def after(samples: list[tuple[float, int]]) -> TimeToFull | None:
    """What the last of `samples` (minutes, bytes free) is answered."""
    trend, answer = DiskTrend(), None
    for minutes, free in samples:
        answer = trend.observe(minutes * 60, free)
    return answer


def test_a_disk_that_fills_steadily_says_when_it_is_full() -> None:
    """One GiB an hour with ten left: ten hours."""
    answer = after([(m, 11 * GIB - m * GIB // 60) for m in range(61)])
    assert answer is not None
    assert abs(answer.seconds - 36_000) < 60
    assert answer.low_s == pytest.approx(answer.seconds, rel=1e-6) == answer.high_s


def test_nothing_is_said_before_ten_minutes() -> None:
    """Nor of a disk that does not fill, or takes more than a year."""
    assert after([(m, 11 * GIB - m * GIB // 60) for m in range(10)]) is None
    assert after([(m, 11 * GIB) for m in range(61)]) is None
    assert after([(m, 11 * GIB + m) for m in range(61)]) is None
    assert after([(m, 11 * GIB - m) for m in range(61)]) is None


def test_checkpoints_that_come_and_go_do_not_hide_the_growth() -> None:
    """A saw of 25 MiB upon a GiB an hour changes the answer by little."""
    answer = after([(m, 11 * GIB - m * GIB // 60 - (m % 2) * (25 << 20)) for m in range(121)])
    assert answer is not None
    assert abs(answer.seconds - 9 * 3600) < 1200
    assert answer.high_s is not None
    assert answer.low_s <= answer.seconds <= answer.high_s


def test_one_large_file_moves_the_answer_by_little() -> None:
    """Three GiB at once upon a GiB an hour: the pace is still that of the hours, and the range says what may be."""
    steady = [(float(m), 21 * GIB - m * GIB // 60) for m in range(241)]
    answers = [after([*steady, (241, steady[-1][1] - 3 * GIB)]), after(steady)]
    assert answers[0] is not None
    assert answers[1] is not None
    assert abs(answers[0].seconds - 14 * 3600) < 600
    assert abs(answers[1].seconds - 17 * 3600) < 600
    bursts = after([(float(m), 21 * GIB - m // 50 * GIB) for m in range(241)])
    assert bursts is not None
    assert bursts.high_s is not None
    assert bursts.low_s < 0.8 * bursts.high_s


def test_a_disk_that_may_not_fill_has_no_latest_moment() -> None:
    """It filled, and was still in the last half: the slowest of the paces is none."""
    answer = after([(float(m), 11 * GIB - min(m, 60) * GIB // 60) for m in range(181)])
    assert answer is not None
    assert answer.high_s is None


def test_a_deletion_begins_anew() -> None:
    """What was freed is no pace: the ten minutes start again, and then count from there."""
    filling = [(float(m), 11 * GIB - m * GIB // 60) for m in range(61)]
    assert after([*filling, (61, 30 * GIB)]) is None
    later = [(float(61 + m), 30 * GIB - m * GIB // 60) for m in range(31)]
    answer = after([*filling, *later])
    assert answer is not None
    assert abs(answer.seconds - 29.5 * 3600) < 60


def test_more_than_one_sample_a_minute_is_the_same_answer() -> None:
    """The supervisor looks every second; what is remembered stays small."""
    trend = DiskTrend()
    for second in range(7200):
        trend.observe(float(second), 11 * GIB - second * GIB // 3600)
    assert len(trend._seen) == 120
