"""`hang`: silence of a living trainer is measured against its own updates; pauses and the end are no silence."""

from __future__ import annotations

import pytest

from mission_tui.fleet.events.metrics import TrainingEnded, TrainingStarted, UpdateDone
from mission_tui.fleet.health import HealthJudge, judge_of
from mission_tui.fleet.specs.preset import change
from tests.fleet.recorded import SPEC, STEPS

BEGUN = 1000.0


def running(seconds: float = 1.0, updates: int = 10, phases: tuple[float, float] = (0.75, 0.25)) -> HealthJudge:
    """A judge that saw `updates` updates of `seconds` each; the last ended at BEGUN + updates * seconds."""
    judge = judge_of(SPEC)
    judge.started(TrainingStarted(seq=1, attempt=1, t=BEGUN))
    for number in range(1, updates + 1):
        assert judge.update(row(number, BEGUN + number * seconds, seconds * phases[0], seconds * phases[1])) == []
    return judge


def row(number: int, t: float, rollout_s: float = 0.75, update_s: float = 0.25) -> UpdateDone:
    return UpdateDone(number + 1, 1, number, number * STEPS, t, rollout_s, update_s, 1000.0)


@pytest.mark.parametrize(("seconds", "limit"), [(1.0, 120.0), (30.0, 300.0)])
def test_silence_longer_than_the_runs_own_limit_is_critical(seconds: float, limit: float) -> None:
    """Two minutes, or ten of the run's median updates if those are longer; once, however often one looks."""
    judge = running(seconds)
    last_t = BEGUN + 10 * seconds
    assert judge.silence(last_t + limit) == []
    (finding,) = judge.silence(last_t + limit + 1)
    assert (finding.id, finding.severity, finding.first_t) == ("hang-1-10", "critical", last_t + limit)
    assert judge.silence(last_t + limit + 100) == []


def test_the_next_row_in_time_ends_it() -> None:
    """An update that comes after all is late itself; the one after it, in time, clears the incident."""
    judge = running()
    judge.silence(BEGUN + 200)
    assert judge.update(row(11, BEGUN + 300)) == []
    (finding,) = judge.update(row(12, BEGUN + 301))
    assert (finding.id, finding.state, finding.last_update) == ("hang-1-10", "cleared", 12)


def test_one_slow_stretch_is_one_incident() -> None:
    """Twelve updates in a row that each took too long are told of once, and so is the next stretch."""
    judge, t = running(), BEGUN + 10
    told = []
    for number in range(11, 40):
        t += 1 if number in (30, 31) else 200
        told += [*judge.silence(t - 0.5), *judge.update(row(number, t))]
    said = [(finding.id, finding.state, finding.last_update) for finding in told]
    assert said == [("hang-1-10", "open", 10), ("hang-1-10", "cleared", 30), ("hang-1-31", "open", 31)]


def test_an_end_in_time_closes_a_stretch() -> None:
    """The last update was late, and the training then ended as it should: nothing is left open."""
    judge = running()
    judge.update(row(11, BEGUN + 300))
    end = TrainingEnded(seq=13, attempt=1, update=11, timesteps=11 * STEPS, t=BEGUN + 301, how="finished")
    assert [(finding.id, finding.state) for finding in judge.ended(end)] == [("hang-1-10", "cleared")]


def test_a_gap_between_rows_is_the_same_incident() -> None:
    """Judged later from the rows alone, the silence is found with the same words and moments."""
    live, later = running(), running()
    told = [*live.silence(BEGUN + 131), *live.update(row(11, BEGUN + 300)), *live.update(row(12, BEGUN + 301))]
    assert [*later.update(row(11, BEGUN + 300)), *later.update(row(12, BEGUN + 301))] == told
    assert [finding.state for finding in told] == ["open", "cleared"]


def test_a_gap_before_the_end_is_the_same_incident() -> None:
    """A trainer that hung and then ended was silent all the same; after its end silence is its right."""
    end = TrainingEnded(seq=12, attempt=1, update=10, timesteps=10 * STEPS, t=BEGUN + 300, how="stopped")
    live, later = running(), running()
    told = [*live.silence(BEGUN + 131), *live.ended(end)]
    assert later.ended(end) == told
    assert live.silence(BEGUN + 9999) == []
    quick = running()
    assert quick.ended(TrainingEnded(12, 1, 10, 10 * STEPS, BEGUN + 11, "finished")) == []
    assert quick.silence(BEGUN + 9999) == []


def test_paused_time_does_not_count() -> None:
    """A minute before the pause and what comes after it make the silence; the pause itself is none."""
    judge = running()
    judge.broken(BEGUN + 70, "pause")
    assert judge.silence(BEGUN + 9000) == []
    judge.broken(BEGUN + 10_000, "unpause")
    assert judge.silence(BEGUN + 10_059) == []
    (finding,) = judge.silence(BEGUN + 10_061)
    assert finding.first_t == BEGUN + 10_060


def test_pauses_may_be_told_ahead_of_the_rows() -> None:
    """After a restart all breaks are told first, then all rows are judged: nothing changes by that."""
    judge = judge_of(SPEC)
    for start in (1020.0, 2020.0, 3020.0):
        judge.broken(start, "pause")
        judge.broken(start + 900, "unpause")
    judge.started(TrainingStarted(seq=1, attempt=1, t=BEGUN))
    number = 0
    for start in (1000.0, 1920.0, 2920.0, 3920.0):
        for second in range(1, 20):
            number += 1
            assert judge.update(row(number, start + second)) == []
    (finding,) = judge.silence(5000.0)
    assert finding.first_t == 3939.0 + 120.0


def test_a_pause_after_too_long_a_silence_comes_too_late() -> None:
    """A hung trainer that a person then paused had hung."""
    judge = running()
    judge.broken(BEGUN + 140, "pause")
    (finding,) = judge.silence(BEGUN + 500)
    assert finding.first_t == BEGUN + 130


def test_the_first_rollout_has_its_time() -> None:
    """Before three updates have shown what is normal a quarter of an hour is allowed, from the start of training on."""
    judge = judge_of(SPEC)
    assert judge.silence(1e9) == []
    judge.started(TrainingStarted(seq=1, attempt=1, t=BEGUN, from_update=40))
    assert judge.silence(BEGUN + 900) == []
    (finding,) = judge.silence(BEGUN + 901)
    assert (finding.id, finding.sentence) == (
        "hang-1-40",
        "the trainer is alive but has reported nothing for 900 s since training began; fewer than three updates so far",
    )


@pytest.mark.parametrize(
    ("phases", "cause"),
    [
        ((0.75, 0.25), "the rollout of CartPole-v1 takes 75% of an update: suspect a step that blocks"),
        ((0.0, 0.0), "a step of CartPole-v1 may block, or the machine is swapping"),
        ((0.1, 0.9), "learning takes 90% of an update: suspect the GPU"),
    ],
)
def test_the_cause_is_the_phase_that_takes_the_time(phases: tuple[float, float], cause: str) -> None:
    """Where most of an update goes is where a hang most likely is."""
    (finding,) = running(phases=phases).silence(BEGUN + 200)
    assert finding.cause.startswith(cause)
    assert (
        finding.sentence
        == "the trainer is alive but has reported nothing for 120 s after update 10; an update takes 1 s"
    )


def test_rows_without_seconds_are_measured_by_their_distance() -> None:
    """A trainer that says no seconds has its rhythm in the moments of its rows."""
    judge = judge_of(SPEC)
    for number in range(1, 11):
        judge.update(UpdateDone(number + 1, 1, number, number * STEPS, BEGUN + 60.0 * number, 0.0, 0.0, 0.0))
    assert judge.silence(BEGUN + 600 + 600) == []
    assert len(judge.silence(BEGUN + 600 + 601)) == 1


def test_a_rule_that_is_off_is_silent() -> None:
    """`act = "off"` judges no silence, in rows or by the clock."""
    judge = judge_of(change(SPEC, ['keep.health.hang.act="off"']))
    for number in (1, 2, 3, 4):
        assert judge.update(row(number, BEGUN + number**8)) == []
    assert judge.silence(1e12) == []


def test_frozen_time_does_not_count_within_a_pause_or_without() -> None:
    """Whoever freezes a paused run and thaws it has not unpaused it; time counts when nothing holds it any more."""
    judge = running()
    judge.broken(BEGUN + 70, "freeze")
    assert judge.silence(BEGUN + 9000) == []
    judge.broken(BEGUN + 10_000, "thaw")
    assert judge.silence(BEGUN + 10_059) == []
    judge.broken(BEGUN + 10_010, "pause")
    judge.broken(BEGUN + 10_020, "freeze")
    judge.broken(BEGUN + 20_000, "thaw")
    assert judge.silence(BEGUN + 30_000) == []
    judge.broken(BEGUN + 40_000, "unpause")
    assert judge.silence(BEGUN + 40_049) == []
    (finding,) = judge.silence(BEGUN + 40_051)
    assert finding.first_t == BEGUN + 40_050
