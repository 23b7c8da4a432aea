"""The returns as all rules read them: noise, range, best, and where they are going."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mission_tui.fleet.health.returns import NOISE_SCALE, Quantiles, Returns, trend_warm_up
from tests.fleet.health.one_rule import SampledRow, bursts, ended


def seen(values: list[float], warm_up: int = 0, episodes: int = 0) -> Returns:
    """Returns after `values`."""
    returns = Returns(warm_up, 100)
    for value in values:
        returns.update(value, episodes)
    return returns


@pytest.mark.parametrize(("budget", "updates"), [(None, 100), (100, 30), (1000, 50), (100_000, 200)])
def test_the_warm_up_is_a_share_of_the_budget(budget: int | None, updates: int) -> None:
    """5 % of it, at least 30 and at most 200 updates; 100 where nobody knows it."""
    assert trend_warm_up(budget) == updates


def test_trends_wait_for_the_window_to_fill() -> None:
    """After a resume the mean is over few episodes: 49 updates of 2 are not enough; uncounted ones do not wait."""
    assert not seen([1.0] * 49, 10, episodes=2).warm
    assert seen([1.0] * 50, 10, episodes=2).warm
    assert not seen([1.0] * 9, 10).warm
    assert seen([1.0] * 10, 10).warm


def test_noise_is_that_of_neighbours() -> None:
    """Successive differences of noise of 2 have 2 x sqrt(2), and one outlier adds next to nothing."""
    dice = random.Random(1)
    values = [dice.gauss(0.0, 2.0) for _ in range(400)]
    assert seen(values).noise == pytest.approx(2.8, rel=0.25)
    assert seen([*values[:-5], 1e6, *values[-4:]]).noise == pytest.approx(2.8, rel=0.25)


def test_rare_disasters_are_noise() -> None:
    """One episode in fifty moves a mean of a hundred more than all others do: the standard error knows it."""
    dice = random.Random(3)
    episodes = [-12.0 if dice.random() < 0.02 else dice.gauss(0.0, 0.3) for _ in range(1300)]
    returns = Returns(0, 100)
    for last in range(100, 1300, 4):
        returns.update(sum(episodes[last - 100 : last]) / 100.0, 4)
    assert returns.error == pytest.approx(0.17, rel=0.35)


def test_a_steady_rise_is_no_noise() -> None:
    """Nor is one that gets steeper: what bends a little is learning."""
    assert seen([0.01 * n * n for n in range(200)]).noise < 1.0


def test_the_first_row_of_a_log_is_of_few_episodes() -> None:
    """Nothing before it tells how many; its mean is no level to fall from or to rise from."""
    returns = Returns(0, 100)
    returns.update(1.0, 0, 0.0)
    assert not returns.filled
    returns.update(1.0, 0, 4.0)
    assert not returns.filled


def test_noise_is_that_of_the_last_hundred() -> None:
    """What was noisy before the last 100 returns is forgotten, in bounded memory."""
    returns = seen([10.0, -10.0] * 200 + [0.0, 0.1] * 60)
    assert returns.noise == pytest.approx(0.148, rel=0.01)
    assert len(returns._steps) == len(returns._sorted_steps) < 100


def test_the_range_leaves_out_the_extremes() -> None:
    """5 to 95 % of all returns, and never less than the noise."""
    returns = seen([float(number) for number in range(1001)])
    assert returns.low == pytest.approx(50, abs=5)
    assert returns.high == pytest.approx(950, abs=5)
    assert returns.span == pytest.approx(900, abs=8)
    flickering = seen([0.0, 1.0] * 10)
    assert flickering.span == flickering.noise == pytest.approx(1.4826)


def test_improving_and_flat_are_about_the_last_32() -> None:
    """A rise beyond the noise improves; standing still is flat and does not; fewer than 16 returns say nothing."""
    rising = seen([float(number) for number in range(50)])
    assert (rising.improving, rising.flat) == (True, False)
    resting = seen([*[float(number) for number in range(50)], *[50.0] * 32])
    assert (resting.improving, resting.flat) == (False, True)
    falling = seen([-float(number) for number in range(50)])
    assert (falling.improving, falling.flat) == (False, False)
    assert (seen([1.0] * 15).improving, seen([1.0] * 15).flat) == (None, None)


def test_blank_and_absurd_returns_are_passed_over() -> None:
    """They count as updates, not as returns."""
    returns = Returns(0, 100)
    for value in (None, float("nan"), float("inf"), 3.0):
        returns.update(value, -5)
    assert (returns.updates, returns.known, returns.episodes, returns.latest) == (4, 1, 0, 3.0)
    assert returns.share_of_best is None


def test_the_share_of_the_best() -> None:
    """The smoothed return between the run's low and its best."""
    returns = seen([*[float(number) for number in range(101)], *[50.0] * 60])
    assert returns.share_of_best == pytest.approx(0.5, abs=0.06)


def test_quantiles_are_bounded_and_close() -> None:
    """Of 100,000 values at most 512 are kept, and the median is still within 2 % of the range."""
    quantiles = Quantiles()
    dice = random.Random(2)
    for _ in range(100_000):
        quantiles.add(dice.random())
    assert quantiles.at(0.5) == pytest.approx(0.5, abs=0.08)
    assert len(quantiles._sorted) <= Quantiles.SIZE


@given(st.lists(st.floats() | st.none(), max_size=80))
def test_no_return_raises(values: list[float | None]) -> None:
    """Overflow included: what comes out may be infinite or NaN."""
    returns = Returns(0, 100)
    for value in values:
        returns.update(value, 1)
        assert returns.improving in (True, False, None)
        assert returns.flat in (True, False, None)
        assert returns.span is not None
        assert returns.share_of_best is None or isinstance(returns.share_of_best, float)


@pytest.mark.parametrize("counted", [True, False])
def test_each_burst_of_episodes_is_known_by_itself(counted: bool) -> None:
    """A log that counts no episodes tells what the newest burst returned by the mean of the last hundred."""
    levels = [-14.0, -2.0, 5.0, 7.0, 6.5, -30.0, -20.0, 9.0]
    returns, steps, found = Returns(0, 100), math.nan, []
    for row in bursts(levels, [1.0] * 170, counted=counted):
        returns.sampled = row.returns if isinstance(row, SampledRow) else ()
        returns.update(row.metrics.get("rollout/ep_rew_mean"), row.episodes, ended(row, steps), row.update)
        steps = row.timesteps
        if returns.burst and returns.bursts.newest is not None:
            found.append((returns.bursts.newest.update, returns.bursts.newest.episodes, returns.bursts.newest.mean))
    places = list(range(len(levels)))[0 if counted else 1 :]
    assert [update for update, *_ in found] == [20 * (place + 1) for place in places]
    assert {episodes for _, episodes, _ in found} == {16}
    assert [mean for *_, mean in found] == pytest.approx([levels[place] - 0.25 for place in places], abs=0.2)


def test_updates_in_which_no_episode_ended_are_no_quiet() -> None:
    """Episodes that end in bursts move the mean every third update; the others are left out of its noise."""
    bursts = Returns(0, 100)
    for n in range(90):
        bursts.update(float(n // 3 % 2), 8 if n % 3 == 0 else 0)
    assert bursts.noise == pytest.approx(NOISE_SCALE)
    assert bursts.error == pytest.approx(NOISE_SCALE / math.sqrt(2.0 * 0.08))


def test_the_mean_of_the_first_few_episodes_is_no_best() -> None:
    """Smoothed and best follow the mean until its window is full, and are a level to rise from after that."""
    lucky = seen([400.0, 365.0, 350.0, 355.0, 360.0], episodes=16)
    assert (lucky.smooth, lucky.best) == (360.0, 360.0)
    risen = seen([400.0, 365.0, 350.0, 355.0, 360.0, 360.0, 360.0, 370.0], episodes=16)
    assert risen.best == risen.smooth == pytest.approx(362.0)
