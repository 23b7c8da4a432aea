"""`stall`: longer episodes that earn no more, idle endings, and life at the cap where success is known to be none."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from benchmarks.health.trace import TRACES as CONSTRUCTED
from benchmarks.health.trace import read_trace
from mission_tui.fleet.health.episode_endings import shaping_remedy
from mission_tui.fleet.health.rule import Row
from mission_tui.fleet.health.rules.stall import Stall
from mission_tui.fleet.health.settings import Settings, settings_of
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import EnvSpec
from mission_tui.fleet.specs.thresholds import Limits, StallLimits
from tests.fleet.health.one_rule import ABSENT, TRACES, SampledRow, ending, incidents_on, rows, sampled_row_of, watch
from tests.fleet.recorded import SPEC

SETTINGS = Settings(total_timesteps=1_000_000, rollout=1000, max_episode_steps=1000, gamma=0.99)
SEALED = CONSTRUCTED / "stall-no-way-forward-sealed-mission-s101.jsonl.gz"

dice = random.Random(4)
LEARNING = [float(number) for number in range(100)]


def noisy(values: list[float], sigma: float) -> list[float]:
    """`values` with Gaussian noise."""
    return [value + dice.gauss(0.0, sigma) for value in values]


def growing(share: float, updates: int = 60, gain: float = 0.0, rest: int = 0) -> list[Row]:
    """Learning at a length of 400, which then grows by `share` in 50 updates while the return moves by `gain`."""
    lengths = [400.0] * 100 + [400.0 * (1 + share * step / 50) for step in range(updates)]
    returns = LEARNING + [99.0 + gain * step / 50 for step in range(updates)]
    return rows(
        noisy([*returns, *[returns[-1]] * rest], 0.5),
        noisy([*lengths, *[lengths[-1]] * rest], 4.0),
    )


def test_longer_episodes_that_earn_no_more_are_a_stall() -> None:
    """Lengths up by half in 50 updates at a flat return: a warning, in this run's own numbers."""
    watched = watch(Stall, growing(0.5), SETTINGS)
    [(severity, first, _)] = watched.incidents
    assert severity == "warning"
    assert 130 <= first <= 160
    words = watched.words[0]
    assert words.sentence.startswith("episodes grew from 4")
    assert "a step; with gamma 0.99 the policy looks 100 steps ahead" in words.cause
    assert words.threshold is not None
    assert 450 < words.threshold < 550
    assert (words.signal, words.window, words.advice_set) == ("rollout/ep_len_mean", 50, ())
    assert len(words.evidence) <= 12


def test_longer_episodes_that_earn_more_are_none() -> None:
    """The same growth while the return rises by a third of its range, or by a little over 5 %, is learning."""
    assert watch(Stall, growing(0.5, gain=33.0), SETTINGS).incidents == []
    assert watch(Stall, growing(0.5, gain=7.5), SETTINGS).incidents == []


def test_falling_returns_do_not_hide_it() -> None:
    """Longer and worse is no better than longer and flat."""
    assert watch(Stall, growing(0.5, gain=-20.0), SETTINGS).incidents != []


def test_a_small_growth_is_ordinary() -> None:
    """A tenth in 50 updates is below the limit, and above it where the limit is lower."""
    assert watch(Stall, growing(0.1), SETTINGS).incidents == []
    lower = Limits(stall=StallLimits(length_rise=0.05, length_leave=0.02))
    assert watch(Stall, growing(0.1), SETTINGS, lower).incidents != []


def test_growth_must_be_significant() -> None:
    """Mann-Kendall has a say: at a z that no 50 values can reach, nothing is found."""
    assert watch(Stall, growing(0.5), SETTINGS, Limits(stall=StallLimits(z=11.0))).incidents == []


def test_it_is_silent_before_the_trend_warm_up() -> None:
    """The same growth, and idle endings, within the first 50 updates, 5 % of the budget, are nobody's business."""
    assert watch(Stall, growing(0.5)[90:140], SETTINGS).incidents == []
    early = ending([{"captured": 10}] * 15 + [{"timeout": 10}] * 34, [1.0] * 49)
    assert watch(Stall, early, SETTINGS).incidents == []
    assert watch(Stall, ending([{"captured": 10}] * 45 + [{"timeout": 10}] * 34, [1.0] * 79), SETTINGS).incidents != []


def test_it_ends_after_a_whole_window_without_growth() -> None:
    """Once lengths have stood still for a window and ten calm looks, it is over."""
    [(_, first, last)] = watch(Stall, growing(0.5, rest=200), SETTINGS).incidents
    assert first < 160
    assert 160 + 50 < last < 160 + 150


def test_three_windows_are_critical() -> None:
    """Growth that goes on for 150 updates without a better return."""
    watched = watch(Stall, growing(0.6, updates=200), SETTINGS)
    [(severity, first, _)] = watched.incidents
    turned = watched.severities.index("critical") + 1
    assert severity == "critical"
    assert turned - first == pytest.approx(95, abs=10)


def at_cap(success: float | None, timesteps: int = 1000, lengths: bool = False) -> list[Row]:
    """300 updates of life at the cap of 1,000 steps."""
    known = {} if success is None else {"rollout/success_rate": success}
    tags = {"rollout/ep_rew_mean": 1.0, "rollout/ep_len_mean": 999.0} | known
    said = (1000, 1000, 998) if lengths else ()
    return [
        SampledRow(1, n, n * timesteps, tags, returns=(1.0,) * len(said), lengths=said, episodes=len(said))
        for n in range(1, 301)
    ]


def test_life_at_the_cap_without_success_is_critical() -> None:
    """From 30 % of the budget on, where success is known to be none."""
    assert watch(Stall, at_cap(0.0), SETTINGS).incidents == []
    watched = watch(Stall, at_cap(0.0, timesteps=2000), SETTINGS)
    [(severity, first, _)] = watched.incidents
    assert (severity, first) == ("critical", 152)
    assert watched.words[0].sentence == "100% of episodes end at the limit of 1,000 steps and 0% succeed"
    assert watched.words[0].threshold == 950.0


def test_unknown_success_is_not_zero() -> None:
    """Healthy runs live at their cap: nobody says that they fail, nobody says where the cap is, or they succeed."""
    assert watch(Stall, at_cap(None, timesteps=2000), SETTINGS).incidents == []
    assert watch(Stall, at_cap(0.0, timesteps=2000), replace(SETTINGS, max_episode_steps=None)).incidents == []
    assert watch(Stall, at_cap(0.06, timesteps=2000), SETTINGS).incidents == []
    assert watch(Stall, at_cap(0.0, timesteps=2000), replace(SETTINGS, total_timesteps=None)).incidents == []


def test_single_lengths_count_where_they_are_said() -> None:
    """A third of the episodes end before the cap: a mean length near it does not hide them."""
    assert watch(Stall, at_cap(0.0, timesteps=2000, lengths=True), SETTINGS).incidents == []


def test_what_stalls_long_before_the_limit_is_not_said_to_end_at_it() -> None:
    """Outcomes tell of a standstill; the mean length is 60 of 1,000 steps, and no length was passed."""
    tags = {"rollout/ep_rew_mean": -1.6, "rollout/ep_len_mean": 60.0}
    rows = [Row(1, n, n * 2000, tags, episodes=10, outcomes={"stalled": 10}) for n in range(1, 301)]
    words = watch(Stall, rows, replace(SETTINGS, env_id="MissionGym-v0")).words[0]
    assert words.sentence == "100% of episodes end stalled or out of time and 0% succeed"
    assert words.threshold is None


def test_idle_endings_without_a_better_return_are_a_stall() -> None:
    """A run that won 9 of 10 times out three of four times now, and its return has not risen."""
    before, after = {"captured": 9, "timeout": 1}, {"captured": 3, "timeout": 7}
    watched = watch(Stall, ending([before] * 100 + [after] * 60, [*LEARNING, *[80.0] * 60]), SETTINGS)
    [(severity, first, _)] = watched.incidents
    assert severity == "warning"
    assert 105 < first < 130
    assert watched.words[0].sentence.startswith("70% of episodes")
    assert watched.words[0].sentence.endswith("(10% before) while the return does not rise")
    paid = ending([before] * 100 + [after] * 60, [*LEARNING, *[200.0] * 60])
    assert watch(Stall, paid, SETTINGS).incidents == []


def test_a_dip_that_is_overcome_is_over_long_before_idle_endings_are_rare() -> None:
    """A slow learner of a hard mission wins more from update 120 on, and earns more: ten such updates end the stall."""
    before, dip = {"captured": 3, "timeout": 7}, {"timeout": 10}
    better = [{"captured": 3, "timeout": 7}] * 15 + [{"captured": 4, "timeout": 6}] * 45
    outcomes = [*[before] * 100, *[dip] * 20, *better]
    [(_, first, last)] = watch(Stall, ending(outcomes, [*LEARNING, *[60.0] * 20, *[120.0] * 60]), SETTINGS).incidents
    assert 100 < first < 120 < last <= 145
    unpaid = watch(Stall, ending(outcomes, [*LEARNING, *[60.0] * 80]), SETTINGS)
    assert unpaid.incidents[0][2] > 170


def test_idle_endings_in_the_place_of_losses_are_learning() -> None:
    """Who is no longer disabled may time out more often; more is won than before."""
    before, after = {"all_disabled": 10}, {"captured": 2, "timeout": 8}
    said = ending([before] * 100 + [after] * 60, [*LEARNING, *[80.0] * 60])
    assert watch(Stall, said, SETTINGS).incidents == []


def test_advice_for_mission_gym_is_an_assignment_that_a_resume_takes() -> None:
    """Its shaping is ours to set; of other environments nobody knows."""
    won = [{"captured": 9, "timeout": 1}] * 100 + [{"captured": 3, "timeout": 7}] * 60
    said = ending(won, [*LEARNING, *[80.0] * 60])
    words = watch(Stall, said, replace(SETTINGS, env_id="MissionGym-v0")).words[0]
    changed = change(structs.replace(SPEC, env=EnvSpec(id="MissionGym-v0")), words.advice_set)
    assert changed.env.kwargs == {"shaping": "best_so_far"}
    assert watch(Stall, said, SETTINGS).words[0].advice_set == ()


@pytest.mark.parametrize(
    ("kwargs", "config", "shaping"),
    [
        ({"shaping": "one_way"}, None, "one_way"),
        ({"overrides": {"rewards": {"shaping": "two_way"}}}, "demo", "two_way"),
        ({"overrides": {"rewards": {"step_cost": 0}}}, "demo", "best_so_far"),
        ({}, None, "best_so_far"),
        ({}, "my-rules", None),
    ],
)
def test_shaping_is_only_advised_where_it_is_another(
    kwargs: dict[str, Any], config: str | None, shaping: str | None
) -> None:
    """A mission that pays for the best distance so far already gets other advice; unknown rules get this one."""
    settings = settings_of(structs.replace(SPEC, env=EnvSpec(id="MissionGym-v0", kwargs=kwargs, config=config)))
    assert settings.shaping == shaping
    _, assignments = shaping_remedy(settings)
    assert assignments == (() if shaping == "best_so_far" else ('env.kwargs.shaping="best_so_far"',))


def test_odd_rows_are_survived() -> None:
    """Blank, NaN, infinite, huge and negative lengths and returns; then a real stall is found all the same."""
    odd = [
        Row(1, n, n, {"rollout/ep_len_mean": length, "rollout/ep_rew_mean": value})
        for n, (length, value) in enumerate([(float("nan"), 1.0), (float("inf"), 1.0), (1.0, float("-inf"))] * 30)
    ]
    assert watch(Stall, [*odd, *growing(0.5)], SETTINGS).incidents != []
    huge = rows([dice.choice([1e308, -1e308]) for _ in range(300)], [dice.choice([1e308, -1.0]) for _ in range(300)])
    watch(Stall, huge, SETTINGS)


@pytest.mark.skipif(not TRACES.is_dir(), reason=ABSENT)
def test_on_healthy_runs_of_others_only_real_hovering_is_found() -> None:
    """One of forty, in a stall that somebody dated: the guide's baseline is two, a naive slope test finds 30."""
    found = list(incidents_on(Stall, "healthy"))
    assert [(trace, known) for trace, _, known in found] == [("pfb_sb3_LunarLanderContinuous-v2_seed957", True)]
    assert found[0][1] == ("warning", 195, 284)


@pytest.mark.skipif(not SEALED.is_file(), reason="the constructed trace is not recorded")
def test_a_real_run_without_a_way_forward_is_called_a_stall() -> None:
    """PPO under `one_way` shaping before a wall: going left and right is all it learns, and it is said at 30 %."""
    trace = read_trace(Path(SEALED))
    watched = watch(Stall, map(sampled_row_of, trace.updates), settings_of(trace.spec))
    [(severity, first, last)] = watched.incidents
    assert (severity, last) == ("critical", 150)
    assert 45 <= first <= 55
