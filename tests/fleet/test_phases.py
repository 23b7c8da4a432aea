"""Phases of a run over time: said live, set right by rows, put together with age, and never longer than they were."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mission_tui.fleet.events.outcome import Phase
from mission_tui.fleet.phases import PhaseHistory, SpanHistory, thinned
from mission_tui.fleet.strip import Span

DAY_S = 86_400.0
durations = st.lists(st.tuples(st.floats(0.01, 3.0), st.floats(0.01, 3.0)), min_size=1, max_size=60)


def cycles(history: PhaseHistory, rounds: list[tuple[float, float]], t: float = 1000.0) -> float:
    """Rows of rollouts and updates one after the other from `t` on; when the last one was written."""
    for rollout_s, update_s in rounds:
        t += rollout_s + update_s
        history.trained(t, rollout_s, update_s)
    return t


def seconds_in(spans: tuple[Span, ...], phase: str) -> float:
    """All that they say of one phase."""
    return sum(span.until - span.since for span in spans if span.phase == phase)


def test_what_is_said_shows_at_once_and_a_row_sets_it_right() -> None:
    """A phase that was overtaken by the next appears when its row does; what goes on ends where the strip does."""
    history = PhaseHistory()
    history.entered("rollout", 10.0)
    history.entered("rollout", 12.0)
    history.entered("update", 16.0)
    assert history.between(0.0, 20.0, 240) == (Span("rollout", 10.0, 16.0), Span("update", 16.0, 20.0))
    history.trained(12.0, 1.0, 1.0)
    history.trained(20.0, 4.0, 4.0)
    assert history.between(0.0, 25.0, 240) == (
        Span("rollout", 10.0, 11.0),
        Span("update", 11.0, 12.0),
        Span("rollout", 12.0, 16.0),
        Span("update", 16.0, 20.0),
    )


def test_a_phase_that_is_said_after_its_row_is_old_news() -> None:
    """Telemetry under load comes late; the trainer's own time counts."""
    history = PhaseHistory()
    history.trained(20.0, 4.0, 4.0)
    history.entered("update", 16.0)
    history.entered("saving", 20.5)
    assert history.between(10.0, 21.0, 240)[-1] == Span("saving", 20.5, 21.0)
    assert seconds_in(history.between(10.0, 21.0, 240), "update") == 4.0


def test_a_lost_link_is_a_gap_until_a_row_tells_what_was() -> None:
    """Nobody knew from 12 on; then the file says it. Said again, the phase is known to have lasted."""
    history = PhaseHistory()
    history.entered("rollout", 10.0)
    history.link_lost(12.0)
    assert history.between(0.0, 30.0, 240) == (Span("rollout", 10.0, 12.0),)
    history.entered("rollout", 10.0)
    assert history.between(0.0, 30.0, 240) == (Span("rollout", 10.0, 30.0),)
    history.link_lost(13.0)
    history.trained(20.0, 8.0, 2.0)
    assert history.between(0.0, 30.0, 240) == (Span("rollout", 10.0, 18.0), Span("update", 18.0, 20.0))


def test_standing_still_is_a_gap_and_counts_for_no_phase() -> None:
    """A rollout of 4 s stood for 10 s in its middle; its row, which names awake seconds, moves nothing into the gap."""
    history = PhaseHistory()
    history.entered("rollout", 10.0)
    history.stopped(12.0)
    assert history.between(0.0, 20.0, 240) == (Span("rollout", 10.0, 12.0),)
    history.continued(22.0)
    assert history.between(0.0, 23.0, 240)[-1] == Span("rollout", 22.0, 23.0)
    history.trained(25.0, 4.0, 1.0)
    assert history.between(0.0, 30.0, 240) == (
        Span("rollout", 10.0, 12.0),
        Span("rollout", 22.0, 24.0),
        Span("update", 24.0, 25.0),
    )


def test_an_attempt_that_ended_leaves_a_gap_before_the_next() -> None:
    """The next attempt goes on in the same history."""
    history = PhaseHistory()
    history.entered("ending", 5.0)
    history.ended(6.0)
    assert history.until == 6.0
    history.entered("starting", 9.0)
    assert history.between(0.0, 10.0, 240) == (Span("ending", 5.0, 6.0), Span("starting", 9.0, 10.0))


@given(durations)
def test_marks_are_exact_within_a_bucket_and_shares_at_any_width(rounds: list[tuple[float, float]]) -> None:
    """However coarsely it is read back, each phase keeps its seconds, and spans stay in order and apart."""
    history = PhaseHistory()
    end = cycles(history, rounds)
    for most in (1, 7, 240):
        spans = history.between(900.0, end, most)
        rounding = 1e-4 * len(rounds)
        assert seconds_in(spans, "rollout") == pytest.approx(sum(rollout for rollout, _ in rounds), abs=rounding)
        assert seconds_in(spans, "update") == pytest.approx(sum(update for _, update in rounds), abs=rounding)
        assert all(after.since >= before.until - 1e-6 for before, after in pairwise(spans))
    t = 1000.0
    fine = list(history.kept.between(900.0, end))
    for rollout_s, update_s in rounds:
        assert min(abs(span.since - (t + rollout_s)) for span in fine if span.phase == "update") < 0.1
        t += rollout_s + update_s


@pytest.mark.slow
def test_a_day_of_hurried_updates_keeps_its_shares_in_bounded_memory() -> None:
    """A cycle of 2.5 s for a day, 20 cycles a second at its end: shares hold at every age."""
    history = PhaseHistory()
    t = cycles(history, [(2.0, 0.5)] * 34_000, 0.0)
    end = cycles(history, [(0.04, 0.01)] * 20_000, t)
    for since, until in ((100.0, 20_000.0), (t - 5_000.0, t), (t, end - 900.0), (end - 60.0, end)):
        spans = history.between(since, until, 240)
        assert len(spans) <= 3 * 241
        share = seconds_in(spans, "update") / (until - since)
        assert share == pytest.approx(0.2, abs=0.002)
    assert len(history.kept) < 50_000  # 5 bytes each


def test_a_day_of_unhurried_updates_takes_forty_kilobytes() -> None:
    """Of 10 s each: what a thousand such runs take is a part of the supervisor's memory."""
    history = PhaseHistory()
    end = cycles(history, [(7.0, 3.0)] * 8_640, 0.0)
    assert len(history.kept) < 8_000  # 5 bytes each
    assert seconds_in(history.between(0.0, end, 240), "update") == pytest.approx(0.3 * end, rel=0.001)


def test_what_is_read_twice_ends_at_the_same_moment() -> None:
    """What is written down goes on from where it was: times that were rounded leave no sliver behind."""
    history, mark, written = PhaseHistory(), 0.0, list[Span]()
    t = 1_700_000_000.0
    for step in range(400):
        t = cycles(history, [(0.123456 + step / 7_000, 0.0456789)], t)
        if done := history.kept.complete(0, mark):
            mark = done[-1].until
            written += done
    assert min(span.until - span.since for span in written) > 0.01
    assert all(after.since >= before.until for before, after in pairwise(written))


def test_a_gap_of_a_week_is_a_gap() -> None:
    """Longer than an edge can say: a run that stood frozen."""
    history = PhaseHistory()
    history.trained(20.0, 4.0, 4.0)
    t = 20.0 + 7 * DAY_S
    history.trained(t, 3.0, 2.0)
    assert history.between(t - 10.0, t, 240) == (Span("rollout", t - 5.0, t - 2.0), Span("update", t - 2.0, t))


def test_what_is_older_than_a_day_is_forgotten() -> None:
    """A run that trains for a week keeps no more than its last day."""
    history = SpanHistory()
    for t in range(0, 3 * 86_400, 20):
        history.add(Span("rollout", t, t + 15.0))
        history.add(Span("update", t + 15.0, t + 20.0))
    first = next(iter(history.between(0.0, 3 * DAY_S)))
    assert 0.9 * DAY_S < 3 * DAY_S - first.since < 1.5 * DAY_S


def test_a_restored_history_reads_as_the_one_that_was_kept() -> None:
    """Each level is given back as it was; what the coarse ones had not completed is made anew from the fine one."""
    history, again = PhaseHistory(), PhaseHistory()
    end = cycles(history, [(0.9, 0.15)] * 9_000)
    again.kept.restore([history.kept.complete(level, 0.0) for level in range(3)])
    for since in (1000.0, end - 5_000.0, end - 300.0):
        before, after = history.between(since, end - 20.0, 100), again.between(since, end - 20.0, 100)
        assert seconds_in(after, "update") == pytest.approx(seconds_in(before, "update"), abs=0.2)
        assert [span.phase for span in after] == [span.phase for span in before]


@pytest.mark.parametrize("rows_first", [False, True])
def test_rows_of_a_time_that_only_coarse_levels_tell_of_change_nothing(rows_first: bool) -> None:
    """A run that stood for half an hour is resumed by another supervisor: of its last rows the finest level has
    nothing any more, and they are read once more, before or after what was kept. What comes later is taken in.
    """
    rounds, history, again = [(0.9, 0.15)] * 2_000, PhaseHistory(), PhaseHistory()
    end = cycles(history, rounds)
    kept = SpanHistory()
    kept.restore([[], *(history.kept.complete(level, 0.0) for level in (1, 2))])
    if rows_first:
        cycles(again, rounds)
    again.begin_with(kept)
    cycles(again, rounds)
    assert seconds_in(again.between(1000.0, end, 100), "update") == pytest.approx(300.0, abs=1.0)
    again.trained(end + 10.0, 4.0, 3.0)
    newest = again.between(end + 3.0, end + 10.0, 240)
    assert [(span.phase, round(span.until - span.since, 3)) for span in newest] == [("rollout", 4.0), ("update", 3.0)]


def test_a_long_phase_is_not_moved_by_short_ones_before_it() -> None:
    """Short spans of a bucket are put together; the one that lasts beyond it is where it was beyond it."""
    short = [Span("rollout", 0.0, 0.1), Span("update", 0.1, 0.2), Span("rollout", 0.2, 100.0)]
    first, second, rest = thinned(short, 100.0, 100)
    assert (first.phase, second.phase, rest) == ("rollout", "update", Span("rollout", 1.0, 100.0))
    assert (first.until, second.since, second.until) == pytest.approx((0.9, 0.9, 1.0))


@pytest.mark.parametrize("ticks", [0, 5, 12, 19, 26])
def test_an_edge_half_a_tick_before_a_new_block_is_kept(ticks: int) -> None:
    """A block begins at the next tick, and the edge before that is none of a negative number."""
    history, base = SpanHistory(), 1_795_844_331.8
    for place in range(255):
        until = base + (place + 1) * 0.2
        phase: Phase = "update" if place % 2 else "rollout"
        history.add(Span(phase, base + place * 0.2, until - (0.01 if place == 254 else 0.0)))
    last = base + 255 * 0.2 + ticks / 10_000 + 0.00005
    history.add(Span("update", last, last + 0.2))
    assert history.until == last + 0.2
