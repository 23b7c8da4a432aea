"""`drawdown`: real gains that are lost, not noise, not dips; the outside traces' real falls and no others."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from mission_tui.fleet.health.phrases import COMPARE_FIRST
from mission_tui.fleet.health.returns import NewestEpisodes
from mission_tui.fleet.health.rule import Explanation, Row
from mission_tui.fleet.health.rules.drawdown import Drawdown
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.thresholds import DrawdownLimits, Limits
from tests.fleet.health.one_rule import ABSENT, TRACES, SampledRow, bursts, incidents_on, rows, watch
from tests.fleet.recorded import SPEC

RISE = [float(number) for number in range(101)]


def noisy(values: list[float], sigma: float) -> list[float]:
    """`values` with Gaussian noise."""
    dice = random.Random(1)
    return [value + dice.gauss(0.0, sigma) for value in values]


def _ten_a_row(values: list[float]) -> list[Row]:
    """Ten episodes an update, so that the mean of a hundred is of ten updates."""
    return [replace(row, episodes=10) for row in rows(values)]


def test_a_run_that_keeps_its_gain_has_no_finding() -> None:
    """Rising, dipping by a third and staying up with noise is ordinary."""
    assert watch(Drawdown, rows(noisy([*RISE, *[68.0] * 50, *[95.0] * 100], 3.0))).incidents == []


def test_more_than_half_lost_for_ten_updates_is_a_warning() -> None:
    """A fall from 100 to 40: ten updates below the half open it, recovery within 15 % of the gain ends it."""
    watched = watch(Drawdown, rows([*RISE, *[40.0] * 40, *[110.0] * 60]))
    [(severity, first, last)] = watched.incidents
    assert severity == "warning"
    assert 101 + 10 < first < 101 + 25
    assert 141 + 9 < last < 141 + 25


def test_a_short_dip_is_no_drawdown() -> None:
    """Nine updates at the bottom are not ten, nor are four of a fall to the very start five."""
    assert watch(Drawdown, rows([*RISE, *[30.0] * 8, *[100.0] * 50])).incidents == []
    assert watch(Drawdown, rows([*RISE, *[0.0] * 6, *[100.0] * 50])).incidents == []


def test_a_sheer_fall_takes_five_updates() -> None:
    """Five updates with nearly all of the gain gone, that no noise of before comes near, need no ten; unless their
    mean came down in one step and the episodes that did it stay in it.
    """
    level = [*RISE, *[100.0] * 20]
    falling = [*level, *[100.0 - 20.0 * n for n in range(1, 6)], *[0.0] * 30]
    [(_, first, _)] = watch(Drawdown, _ten_a_row(noisy(falling, 1.0))).incidents
    assert first == 128
    at_once = [*level, 50.0, *[0.0] * 35]
    [(_, later, _)] = watch(Drawdown, _ten_a_row(noisy(at_once, 1.0))).incidents
    assert later == 134


def test_half_of_the_gain_that_goes_at_once_takes_five_updates() -> None:
    """Measured by the steps of just before, not by those of learning; unless one step makes it, or it comes back."""
    level = [*noisy([3.0 * n for n in range(100)], 30.0), *noisy([300.0] * 20, 1.0)]
    falls = [270.0, 230.0, 190.0, 150.0, *[130.0] * 30]
    first = watch(Drawdown, _ten_a_row([*level, *falls])).incidents[0][1]
    assert first == len(level) + 8
    assert watch(Drawdown, _ten_a_row([*level, *[130.0] * 6, *[300.0] * 30])).incidents == []
    assert watch(Drawdown, _ten_a_row([*level, *falls[:6], *[300.0] * 30])).incidents == []


def test_a_return_far_below_all_before_is_a_sheer_fall_with_hardly_a_gain() -> None:
    """As of rewards that are cut to their sign after 20 updates: it is said once trends may be judged, unless the
    return has come back by then.
    """
    early = noisy([280.0 + 0.5 * n for n in range(20)], 1.0)
    falling = [*early, *[290.0 - 44.0 * n for n in range(1, 7)], *[25.0] * 130]
    [(_, first, _)] = watch(Drawdown, _ten_a_row(falling)).incidents
    assert first == 50
    assert watch(Drawdown, _ten_a_row([*falling[:30], *[290.0] * 116])).incidents == []


def test_nearly_all_lost_for_twenty_updates_is_critical() -> None:
    """A fall to the very start becomes critical, and stays open while nothing comes back."""
    watched = watch(Drawdown, rows([*RISE, *[0.0] * 60]))
    assert watched.incidents == [("critical", watched.incidents[0][1], 161)]
    assert [words.window for words in watched.words] == [10, 20]
    words = watched.words[-1]
    assert words.sentence.startswith("return fell from 96 at update 101 to 0.23")
    assert words.threshold == pytest.approx(20.0, abs=5.0)
    assert words.advice.startswith("go back to the checkpoint from before update 10")
    assert 2 <= len(words.evidence) <= 12


def test_a_fall_at_once_is_no_noise_to_measure_it_by() -> None:
    """From one update to the next all is gone, as where the environment ends each episode at once, and stays so. Where
    the mean remembers many updates' episodes, one disaster makes such a step.
    """
    values = [*(3.0 * number for number in range(35)), *[1.0] * 35]
    short = Settings(total_timesteps=60_000, rollout=1000)
    watched = watch(Drawdown, rows(values), short)
    [(severity, first, _)] = watched.incidents
    assert (severity, first <= 50) == ("critical", True)
    assert watched.words[-1].sentence.endswith("all of what was gained since 3 is lost")
    slow = [
        replace(line, timesteps=100 * line.update, metrics={**line.metrics, "rollout/ep_len_mean": 10.0})
        for line in rows(values)
    ]
    assert watch(Drawdown, slow, short).incidents == []


FROM_TERRIBLE = noisy([*(-200.0 * 0.85**n for n in range(60)), *[-2.0] * 20], 0.05)
"""Costs that come down to a hundredth."""


def costs(after: list[float], loss: float, explained: float) -> list[Row]:
    """`FROM_TERRIBLE` with a value loss of 0.1 and an explained variance of 0.4, and `after` it these."""
    told = {"train/value_loss": loss, "train/explained_variance": explained}
    before = {"train/value_loss": 0.1, "train/explained_variance": 0.4}
    lines = rows([*FROM_TERRIBLE, *after])
    return [replace(it, metrics={**it.metrics, **(before if it.update <= 80 else told)}) for it in lines]


def test_what_half_of_the_time_was_spent_on_is_lost() -> None:
    """Costs twenty times as high are a quarter of all that was gained. Where they surprise values the world has
    changed; where they do not, come back, come slowly or are few, nothing is said.
    """
    short = Settings(total_timesteps=120_000, rollout=1000)
    lost, back = [-45.0] * 30, [-45.0] * 7 + [-2.0] * 40
    for loss, explained in ((20.0, 0.4), (0.1, 0.0)):
        watched = watch(Drawdown, costs(lost, loss, explained), short)
        [(severity, first, last)] = watched.incidents
        assert (severity, last) == ("warning", 110)
        assert 90 <= first <= 96
        assert ", where it was at update 1" in watched.words[0].sentence
        assert watched.words[0].threshold is None
    assert watch(Drawdown, costs(lost, 0.1, 0.4), short).incidents == []
    assert watch(Drawdown, costs(back, 20.0, 0.0), short).incidents == []
    assert watch(Drawdown, costs([-4.0] * 30, 20.0, 0.0), short).incidents == []
    assert watch(Drawdown, costs([-2.0 - 0.5 * n for n in range(100)], 20.0, 0.0), short).incidents == []


def test_what_is_left_of_one_success_is_no_peak_to_fall_from() -> None:
    """A smoothed return of a hundredth comes down to a millionth of it, and on, while values miss by chance."""
    values = [0.0116, *[0.01] * 5, *[0.0] * 144]
    calm = {"train/value_loss": 1e-12, "train/explained_variance": 0.1}
    surprised = {"train/value_loss": 1e-6, "train/explained_variance": -20.0}
    lines = [
        replace(it, metrics={**it.metrics, **(surprised if 60 < it.update <= 90 else calm)}) for it in rows(values)
    ]
    assert watch(Drawdown, lines, Settings(total_timesteps=150_000, rollout=1000)).incidents == []


def test_gains_that_noise_could_make_do_not_count() -> None:
    """Noise of 30 on a gain of 100 is less than 8 sigmas: losing it says nothing."""
    values = noisy([*RISE, *[0.0] * 100], 30.0)
    assert watch(Drawdown, rows(values)).incidents == []
    assert watch(Drawdown, rows(noisy([*RISE, *[0.0] * 100], 3.0))).incidents != []


def test_returns_below_zero_are_judged_alike() -> None:
    """Gains are differences: -300 that falls back to -1300 is as bad as anything."""
    climb = [-1300.0 + 10.0 * value for value in RISE]
    assert [severity for severity, *_ in watch(Drawdown, rows([*climb, *[-1300.0] * 60])).incidents] == ["critical"]


def test_the_limits_decide() -> None:
    """With a warning limit of 0.9 a fall by 60 % is none."""
    strict = Limits(drawdown=DrawdownLimits(warning=0.9, critical=0.95))
    assert watch(Drawdown, rows([*RISE, *[40.0] * 40]), limits=strict).incidents == []


def test_updates_without_a_return_are_passed_over() -> None:
    """Blank, NaN and infinite returns neither open nor clear anything."""
    falling = rows([*RISE, *[0.0] * 60])
    odd = [Row(1, 1, 1, {}), Row(1, 1, 1, {"rollout/ep_rew_mean": float("nan")}), *falling[-1:]]
    odd += [Row(1, 1, 1, {"rollout/ep_rew_mean": float("inf")})]
    watched = watch(Drawdown, [*falling, *odd * 20])
    assert set(watched.severities[-80:]) == {"critical"}


def long_episodes(returns: list[float], each: int = 1, lengths: list[int] | None = None) -> list[Row]:
    """`each` episodes of `returns` an update, with the mean of the last hundred as SB3 has it."""
    lengths = lengths or [1000] * len(returns)
    found: list[Row] = []
    for number, start in enumerate(range(0, len(returns), each), start=1):
        window, ended = returns[: start + each][-100:], tuple(returns[start : start + each])
        metrics = {"rollout/ep_rew_mean": sum(window) / len(window)}
        long = tuple(lengths[start : start + each])
        found.append(SampledRow(1, number, number * 1000, metrics, episodes=each, returns=ended, lengths=long))
    return found


def test_a_fall_of_long_episodes_is_seen_before_their_mean_shows_it() -> None:
    """An episode an update: after 45 bad ones the mean of a hundred has half of the gain yet, the newest have none."""
    course = noisy([*RISE, *[100.0] * 100, *[0.0] * 45], 3.0)
    watched = watch(Drawdown, long_episodes(course))
    [(severity, first, _)] = watched.incidents
    assert severity == "critical"
    assert 201 + 15 < first < 201 + 30
    assert watched.words[0].sentence.startswith("the return of the newest 20 episodes fell from 10")
    assert watched.words[0].sentence.endswith("is lost, and the mean with older ones hides it")
    assert watched.words[0].threshold is None  # on the curve of the mean no level was passed
    assert "from before update 1" in watched.words[0].advice
    assert watch(Drawdown, rows([row.metrics["rollout/ep_rew_mean"] for row in long_episodes(course)])).incidents == []


def test_ten_bad_episodes_are_no_fall() -> None:
    """Half of the newest twenty; nor is what a hundred noisy ones wander by."""
    assert (
        watch(Drawdown, long_episodes(noisy([*RISE, *[100.0] * 100, *[0.0] * 10, *[100.0] * 60], 3.0))).incidents == []
    )
    assert watch(Drawdown, long_episodes(noisy([50.0] * 300, 30.0))).incidents == []


def test_where_many_episodes_end_in_an_update_their_mean_says_it_as_soon() -> None:
    """The newest are looked at by themselves once a hundred last for 24 updates."""

    def lost(each: int) -> float:
        newest = NewestEpisodes(100)
        for number, value in enumerate([*RISE, *[100.0] * 20, *[0.0] * 20]):
            newest.update(number, value, [value] * each, [1000] * each)
        return newest.share_lost

    assert lost(1) > 0.99
    assert lost(4) > 0.99
    assert lost(5) == 0.0


def test_episodes_that_fail_are_over_first_and_count_for_their_steps() -> None:
    """Six of seven fail at once and the seventh goes on for long: of the steps that were taken most were good ones."""
    course, lengths = [*RISE, *[100.0] * 100], [1000] * 201
    for _ in range(6):
        course, lengths = [*course, *[0.0] * 6, 100.0], [*lengths, *[50] * 6, 1000]
    assert watch(Drawdown, long_episodes(course, lengths=lengths)).incidents == []
    assert watch(Drawdown, long_episodes(course)).incidents != []


SHORT = Settings(total_timesteps=200 * 1024, rollout=1024)
CALM, SURPRISED = [1.0] * 70, [1.0] * 70 + [50.0] * 90


def test_a_burst_of_episodes_is_judged_as_soon_as_it_has_ended() -> None:
    """Where all end at once every 20 updates: the burst that has lost half warns, a second that lost nearly all is
    critical, and one that is back ends it. The mean of a hundred has all of them in it. So it is of a log that counts
    none, once values are surprised or the next burst is as poor.
    """
    levels = [0.0, 100.0, 110.0, 40.0, 10.0, 108.0]
    watched = watch(Drawdown, bursts(levels, CALM + [1.0] * 70), SHORT)
    assert watched.incidents == [("critical", 80, 119)]
    assert watched.words[0].sentence == (
        "the return of the newest 16 episodes fell from 109.8 at update 60 to 39.75: 64% of what was gained since "
        "-0.25 is lost, and the mean with older ones hides it"
    )
    log = watch(Drawdown, bursts(levels, CALM + [1.0] * 70, counted=False), SHORT)
    assert [(severity, first) for severity, first, _ in log.incidents] == [("critical", 100)]
    log = watch(Drawdown, bursts(levels, SURPRISED, counted=False), SHORT)
    assert [(severity, first) for severity, first, _ in log.incidents] == [("critical", 80)]


def test_a_burst_that_chance_may_have_made_is_no_fall() -> None:
    """What was gained is no more than episodes of one burst lie apart; nor is less than a tenth of a gain one, however
    surprised values are, nor what is lost where a stray ending lies between: those are no bursts.
    """
    assert watch(Drawdown, bursts([0.0, 2.0, 3.0, 0.0, 1.0, 2.0], CALM + [1.0] * 70), SHORT).incidents == []
    assert watch(Drawdown, bursts([0.0, 100.0, 110.0, 102.0, 104.0, 107.0], SURPRISED), SHORT).incidents == []
    rows = bursts([0.0, 100.0, 110.0, 40.0], CALM + [1.0] * 15)
    assert isinstance(rows[72], SampledRow)
    rows[72] = replace(rows[72], episodes=1, returns=(100.0,))
    assert watch(Drawdown, rows, SHORT).incidents == []


def test_costs_that_came_down_from_a_terrible_start_rise_by_time() -> None:
    """An eighth of the gain is lost, and with it what two thirds of the time were spent on: told if values are
    surprised by it, as they are where it is the environment that has changed.
    """
    levels = [-15000.0, -1500.0, -600.0, -2400.0, -2300.0]
    watched = watch(Drawdown, bursts(levels, SURPRISED), SHORT)
    assert [(severity, first) for severity, first, _ in watched.incidents] == [("warning", 80)]
    assert "to -2400, less than in all since update 20: 12%" in watched.words[0].sentence
    assert watch(Drawdown, bursts(levels, CALM + [1.0] * 70), SHORT).incidents == []


def test_large_steps_are_blamed_where_there_were_some() -> None:
    """After updates of u 10 the advice ends updates early, where a trial does not speak against it: it made a third
    worse. After small ones no setting is known to cure it, and a rate that is far too high needs no trial.
    """
    far = {"train/approx_kl": 0.2, "train/clip_range": 0.2, "train/learning_rate": 3e-4}
    near = far | {"train/approx_kl": 0.01}
    settings = Settings(total_timesteps=1_000_000, rollout=1000, learning_rate=3e-4, gradient_steps=320)

    def advised(tags: dict[str, float], settings: Settings) -> Explanation:
        falling = [Row(1, row.update, row.timesteps, {**row.metrics, **tags}) for row in rows([*RISE, *[0.0] * 60])]
        return watch(Drawdown, falling, settings).words[-1]

    assert advised(far, settings).advice_set == ("ppo.target_kl=0.03",)
    assert "unless the environment or its rewards have changed; " in advised(far, settings).advice
    assert advised(near, settings).advice_set == ()
    assert change(SPEC, advised(far, settings).advice_set).ppo.target_kl == 0.03
    assert COMPARE_FIRST in advised(far, settings).advice
    assert advised(far, settings).compare_first
    steep = advised(far | {"train/learning_rate": 0.3}, replace(settings, learning_rate=0.3))
    assert steep.advice_set[0].startswith("ppo.learning_rate=")
    assert not steep.compare_first
    assert not advised(near, settings).compare_first


def test_the_kl_of_a_single_step_is_blamed_for_nothing() -> None:
    """SB3 measures it before the step, so that it is 0 however far the step goes."""
    lines = [replace(row, metrics={**row.metrics, "train/approx_kl": 0.0}) for row in rows([*RISE, *[10.0] * 60])]
    for settings in (Settings(gradient_steps=1), Settings(n_epochs=1), Settings()):
        words = watch(Drawdown, lines, settings).words[-1]
        assert words.cause.startswith("the KL does not show how far a single gradient step an update goes")
    several = watch(Drawdown, lines, Settings(gradient_steps=40)).words[-1]
    assert several.cause.startswith("the last 50 updates changed the policy by 0 x the safe KL")


@pytest.mark.skipif(not TRACES.is_dir(), reason=ABSENT)
def test_on_healthy_runs_of_others_only_real_falls_are_found() -> None:
    """One of forty: a fall that somebody dated; the guide's baseline is 4."""
    found = list(incidents_on(Drawdown, "healthy"))
    assert [trace for trace, *_ in found] == ["pfb_sb2_BipedalWalker-v3_seed702"]
    assert {severity for _, (severity, *_), _ in found} == {"warning"}
    assert [known for trace, _, known in found if trace.startswith("pfb")] == [True]


@pytest.mark.skipif(not TRACES.is_dir(), reason=ABSENT)
def test_a_run_that_failed_to_learn_is_found() -> None:
    """It sank below where it began."""
    severities = [severity for _, (severity, *_), _ in incidents_on(Drawdown, "fail_no_learning")]
    assert "critical" in severities


@pytest.mark.parametrize("seed", [5, 9, 10, 11, 12, 17])
def test_a_game_that_is_not_begun_to_be_learned_loses_nothing(seed: int) -> None:
    """Pong by chance, an episode an update of -21 to -17: the mean of the last hundred wanders far in small steps."""
    scores = random.Random(seed).choices((-21.0, -20.0, -19.0, -18.0, -17.0), (40, 34, 17, 6, 3), k=600)
    lines = []
    for n in range(1, 600):
        window = scores[max(0, n - 100) : n]
        metrics = {"rollout/ep_rew_mean": sum(window) / len(window), "rollout/ep_len_mean": 900.0}
        lines.append(Row(1, n, 900 * n, metrics))
    assert watch(Drawdown, lines).incidents == []
