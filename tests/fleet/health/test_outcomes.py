"""`outcomes` and the words of endings: what counts as won, rewards that mislead, and runs that never win."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from benchmarks.health.trace import TRACES as CONSTRUCTED
from benchmarks.health.trace import read_trace
from mission_tui.envs.mission import OUTCOMES
from mission_tui.fleet.health.episode_endings import Endings, Kind, kind_of
from mission_tui.fleet.health.returns import Returns
from mission_tui.fleet.health.rule import Row, RuleContext
from mission_tui.fleet.health.rules.outcomes import Outcomes
from mission_tui.fleet.health.settings import Settings, settings_of
from mission_tui.fleet.health.usual_settings import LossParts
from mission_tui.fleet.specs.thresholds import Limits, OutcomesLimits
from tests.fleet.health.one_rule import ending, sampled_row_of, watch

SETTINGS = Settings(total_timesteps=1_000_000, rollout=1000)
WON = {"captured": 9, "timeout": 1}
IDLE = {"captured": 2, "timeout": 8}
LEARNING = [float(number) for number in range(100)]
BETTER = [100.0 + number for number in range(60)]
HACKED = CONSTRUCTED / "hacked-mission-s101.jsonl.gz"


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("captured", "won"),
        ("early_success", "won"),
        ("all_disabled", "other"),
        ("stalled", "idle"),
        ("timeout", "idle"),
        ("TimeLimit.truncated", "idle"),
        ("time_out", "idle"),
        ("time-limit", "idle"),
        ("Goal reached", "won"),
        ("is_success", "won"),
        ("won", "won"),
        ("no_success", "other"),
        ("goalMissed", "other"),
        ("failed_to_win", "other"),
        ("NOT_SOLVED", "other"),
        ("window_closed", "other"),
        ("crashed", "other"),
        ("", "other"),
        ("x" * 100_000, "other"),
    ],
)
def test_an_ending_says_by_whole_words_what_it_is(word: str, kind: Kind) -> None:
    """Known words win unless denied; parts of words say nothing."""
    assert kind_of(word) == kind


def test_every_ending_of_mission_gym_is_known() -> None:
    """Its outcomes, as the environment writes them, fall into the three kinds."""
    assert [kind_of(word) for word in OUTCOMES] == ["won", "won", "other", "idle", "idle"]


def endings(said: Mapping[str, int], env_id: str = "X") -> Endings:
    """What is known after one update of these endings."""
    one = Endings(RuleContext(Settings(env_id=env_id), Limits(), Returns(30, 100), LossParts(Settings())))
    one.update(Row(1, 1, 1, {}, outcomes=said))
    return one


def test_shares_need_fifty_episodes() -> None:
    """49 are too few to speak of shares."""
    assert endings({"captured": 49}).won_share is None
    assert endings({"captured": 25, "stalled": 25}).won_share == 0.5
    assert endings({"captured": 25, "stalled": 25}).idle_share == 0.5


def test_shares_are_over_the_newest_hundred() -> None:
    """What lies more than 100 episodes back no longer counts."""
    one = endings({"captured": 60})
    for number in range(2, 12):
        one.update(Row(1, number, number, {}, outcomes={"timeout": 10}))
    assert (one.won_share, one.episodes) == (0.0, 100)
    assert one.words() == "timeout 100%"


def test_winning_must_have_a_word() -> None:
    """A foreign run of crashes and timeouts may call its wins something else; MissionGym's words are known."""
    assert endings({"crashed": 90, "timeout": 10}).won_share is None
    assert endings({"crashed": 90, "timeout": 10}, "MissionGym-v0").won_share == 0.0
    assert endings({"all_disabled": 90, "timeout": 10}).won_share == 0.0


def test_a_return_that_rises_while_nothing_is_won_is_misleading() -> None:
    """From 10 % to 80 % idle endings with a rising return: a warning that names both."""
    watched = watch(Outcomes, ending([WON] * 100 + [IDLE] * 60, [*LEARNING, *BETTER]), SETTINGS)
    [(severity, first, last)] = watched.incidents
    assert (severity, last) == ("warning", 160)
    assert 105 < first < 125
    words = watched.words[0]
    assert words.sentence.endswith("of episodes end stalled or out of time (10% before) while the return rises")
    assert "the reward pays for something other than winning: the return went from 9" in words.cause
    assert words.cause.endswith("episodes end in timeout 80%, captured 20%")
    assert len(words.evidence) <= 12


def test_a_falling_return_is_not_misleading() -> None:
    """The same endings with a flat return belong to `stall`."""
    assert watch(Outcomes, ending([WON] * 100 + [IDLE] * 60, [*LEARNING, *[80.0] * 60]), SETTINGS).incidents == []


def test_it_is_over_when_episodes_are_won_again() -> None:
    """Below 45 % idle endings for ten looks."""
    said = ending([WON] * 100 + [IDLE] * 60 + [WON] * 60, [*LEARNING, *BETTER, *[160.0] * 60])
    [(_, _, last)] = watch(Outcomes, said, SETTINGS).incidents
    assert 165 < last < 180


def test_idle_from_the_start_is_not_a_rise() -> None:
    """Early in training most episodes time out, and the return rises: that is how every run begins."""
    assert watch(Outcomes, ending([IDLE] * 160, [*LEARNING, *BETTER]), SETTINGS).incidents == []


def test_a_small_rise_is_none_however_many_episodes_show_it() -> None:
    """From 58 % to 66 % is significant with thousands of episodes, and still ordinary."""
    said = [{"captured": 420, "timeout": 580}] * 100 + [{"captured": 340, "timeout": 660}] * 60
    assert watch(Outcomes, ending(said, [*LEARNING, *BETTER]), SETTINGS).incidents == []


def test_no_win_after_a_third_of_the_budget_is_critical() -> None:
    """Not before 30 % of the budget, and not where one in a hundred is won."""
    idle = {"timeout": 8, "all_disabled": 2}
    [(severity, first, _)] = watch(Outcomes, ending([idle] * 350, [1.0] * 350), SETTINGS).incidents
    assert (severity, first) == ("critical", 302)
    watched = watch(Outcomes, ending([idle] * 350, [1.0] * 350), replace(SETTINGS, env_id="MissionGym-v0"))
    words = watched.words[0]
    assert words.sentence == "none of the last 100 episodes was won, with 30% of the budget used"
    assert words.cause == "they end in timeout 80%, all_disabled 20%"
    assert words.advice_set == ('env.kwargs.shaping="best_so_far"',)
    lucky = [idle if number % 10 else idle | {"captured": 1} for number in range(350)]
    assert watch(Outcomes, ending(lucky, [1.0] * 350), SETTINGS).incidents == []


def test_foreign_words_for_winning_are_not_guessed() -> None:
    """Without any known word for a win, and without a budget, nothing is said."""
    foreign = ending([{"timeout": 10}] * 350, [1.0] * 350)
    assert watch(Outcomes, foreign, SETTINGS).incidents == []
    ours = ending([{"stalled": 10}] * 350, [1.0] * 350)
    assert watch(Outcomes, ours, replace(SETTINGS, total_timesteps=None)).incidents == []
    assert watch(Outcomes, ours, SETTINGS).incidents != []


def test_the_limits_decide() -> None:
    """With a limit of 90 % idle endings, 80 % are none."""
    strict = Limits(outcomes=OutcomesLimits(bad_share=0.9))
    said = ending([WON] * 100 + [IDLE] * 60, [*LEARNING, *BETTER])
    assert watch(Outcomes, said, SETTINGS, strict).incidents == []


@settings(max_examples=30)
@given(
    st.lists(
        st.dictionaries(st.text(max_size=12) | st.sampled_from(["captured", "timeout"]), st.integers(1, 10**400)),
        max_size=80,
    ),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_no_outcome_raises(said: list[dict[str, int]], value: float) -> None:
    """Any words and any counts are taken in."""
    watch(Outcomes, ending(said, [value] * len(said)), SETTINGS)


@pytest.mark.skipif(not HACKED.is_file(), reason="the constructed trace is not recorded")
def test_a_real_run_with_a_bonus_for_surviving_is_found() -> None:
    """MissionGym that pays for every decision: it stops winning and earns more."""
    trace = read_trace(HACKED)
    watched = watch(Outcomes, map(sampled_row_of, trace.updates), settings_of(trace.spec))
    assert watched.severities.count("warning") > 0
    assert watched.incidents[0][1] > 70
