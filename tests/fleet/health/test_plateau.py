"""`plateau`: information only, late, and never where the task is known to be solved."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from mission_tui.fleet.health.rule import Row
from mission_tui.fleet.health.rules.plateau import Plateau
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.thresholds import Limits, PlateauLimits
from tests.fleet.health.one_rule import ABSENT, TRACES, bursts, incidents_on, rows, watch
from tests.fleet.recorded import SPEC

SETTINGS = Settings(total_timesteps=1_000_000, rollout=1000)
dice = random.Random(2)
RISE = [float(number) for number in range(100)]
REST = [90.0 + dice.uniform(-5.0, 5.0) for _ in range(300)]


def test_two_hundred_updates_without_a_better_return() -> None:
    """Information from 200 updates after the best on, and never more than information."""
    watched = watch(Plateau, rows([*RISE, *REST]))
    assert [(severity, last) for severity, _, last in watched.incidents] == [("info", 400)]
    assert 290 <= watched.incidents[0][1] <= 310
    words = watched.words[0]
    assert words.sentence.startswith("no better return than 9")
    assert words.threshold == pytest.approx(96.0, abs=3.0)
    assert len(words.evidence) <= 12


def test_a_better_return_ends_it() -> None:
    """As soon as the best is beaten by 2 % of the range there is nothing to say."""
    assert watch(Plateau, rows([*RISE, *REST, *[120.0] * 100])).incidents[0][2] <= 403


def test_a_slow_rise_is_no_plateau() -> None:
    """One per cent of the range in 10 updates adds up."""
    assert watch(Plateau, rows([*RISE, *[100.0 + 0.1 * number for number in range(900)]])).incidents == []


def test_creeping_is_a_plateau() -> None:
    """A new best every update that adds up to 1 % of the range in 200 updates is none."""
    assert watch(Plateau, rows([*RISE, *[100.0 + 0.005 * number for number in range(400)]])).incidents != []


def test_solved_tasks_rest_in_peace() -> None:
    """Silent over the environment's threshold, at a success rate of 95 %, where nearly all is won, and at a ceiling."""
    resting = rows([*RISE, *REST])
    assert watch(Plateau, resting, replace(SETTINGS, reward_threshold=85.0)).incidents == []
    assert watch(Plateau, resting, replace(SETTINGS, reward_threshold=120.0)).incidents != []
    succeeding = [replace(row, metrics={**row.metrics, "rollout/success_rate": 0.97}) for row in resting]
    assert watch(Plateau, succeeding).incidents == []
    won = [replace(row, outcomes={"captured": 20}, episodes=20) for row in resting]
    assert watch(Plateau, won).incidents == []
    assert watch(Plateau, rows([*RISE, *[500.0] * 400])).incidents == []


def test_advice_is_what_this_run_can_do() -> None:
    """Without an entropy bonus the advice is one, in words that a resume takes."""
    words = watch(Plateau, rows([*RISE, *REST]), replace(SETTINGS, ent_coef=0.0)).words[0]
    assert words.advice_set == ("ppo.ent_coef=0.01",)
    assert change(SPEC, words.advice_set).ppo.ent_coef == 0.01
    assert watch(Plateau, rows([*RISE, *REST]), replace(SETTINGS, ent_coef=0.02)).words[0].advice_set == ()


def test_a_large_entropy_bonus_is_not_told_to_explore_more() -> None:
    """It is lowered: what it pays may be what holds the return."""
    words = watch(Plateau, rows([*RISE, *REST]), replace(SETTINGS, ent_coef=1.0)).words[0]
    assert "a smaller entropy bonus" in words.advice
    assert "explore more" not in words.advice
    assert words.advice_set == ("ppo.ent_coef=0.01",)


def test_the_limits_decide() -> None:
    """A limit of 500 updates is not reached by 300."""
    assert watch(Plateau, rows([*RISE, *REST]), limits=Limits(plateau=PlateauLimits(updates=500))).incidents == []


def test_blank_returns_do_not_count() -> None:
    """A log without returns has no plateau, however long."""
    assert watch(Plateau, [Row(1, number, number, {}) for number in range(1, 600)]).incidents == []


@pytest.mark.skipif(not TRACES.is_dir(), reason=ABSENT)
def test_a_return_that_never_moved_is_told_at_half_of_the_budget() -> None:
    """In a training of 40 updates, too: a true word on slow and sparse tasks, and over with the first success."""
    short = Settings(total_timesteps=40_000, rollout=1000)
    stuck = watch(Plateau, rows([-200.0] * 40), short)
    assert [(severity, first) for severity, first, _ in stuck.incidents] == [("info", 30)]
    assert stuck.words[0].sentence == "the mean return has been -200 in all of 30 updates"
    assert stuck.words[0].advice.startswith("nothing if this is as good as it gets; otherwise pay for steps on the way")
    assert watch(Plateau, rows([-200.0] * 34 + [-150.0, -120.0, -110.0, -100.0] * 2), short).incidents[0][2] <= 36
    assert watch(Plateau, rows([-200.0] * 40), Settings(total_timesteps=200_000, rollout=1000)).incidents == []
    # Resumed with most of the budget used, near what it had reached before.
    resumed = [replace(line, timesteps=line.timesteps + 60_000) for line in rows([200.0] * 40)]
    assert watch(Plateau, resumed, Settings(total_timesteps=100_000, rollout=1000)).incidents == []
    # Episodes may be so long that none has ended yet.
    blank = [replace(line, metrics={"train/approx_kl": 0.01}) for line in rows([0.0] * 40)]
    assert watch(Plateau, blank, short).incidents == []


def test_a_return_that_only_wanders_has_not_risen() -> None:
    """Whether the policy still chooses as it did untrained is said beside it, and what that may come of."""
    wanders = [22.0 + dice.uniform(-2.0, 2.0) for _ in range(40)]
    short = Settings(total_timesteps=40_000, rollout=1000)
    for entropy, said in ((0.687, "99%"), (0.3, "43%")):
        lines = [
            replace(line, metrics={**line.metrics, "train/entropy_loss": -0.693 if line.update < 3 else -entropy})
            for line in rows(wanders)
        ]
        words = watch(Plateau, lines, short).words[0]
        assert words.sentence.startswith("in 30 updates the return has not risen by more than chance: 2")
        assert f"its entropy is {said} of what it was at its start" in words.cause
        assert ("still chooses as at random" in words.cause) == (said == "99%")
    wide = [replace(line, metrics={**line.metrics, "train/std": 20.1}) for line in rows(wanders)]
    assert watch(Plateau, wide, short).words[0].cause.endswith("; its actions have a standard deviation of 20")
    rising = [20.0 + n + dice.uniform(-2.0, 2.0) for n in range(40)]
    assert watch(Plateau, rows(rising), short).incidents == []


def test_healthy_runs_of_others_hear_little_of_it() -> None:
    """About one in 1,000 of 22,000 updates, all of them information."""
    found = [severity for _, (severity, *_), _ in incidents_on(Plateau, "healthy")]
    assert set(found) == {"info"}
    assert len(found) <= 30


def test_bursts_of_episodes_that_return_ever_more_have_moved() -> None:
    """Of six bursts a mean of a hundred has four in it, and hardly any course; each burst has its own."""
    settings = Settings(total_timesteps=200 * 1024, rollout=1024)
    risen = bursts([0.0, 100.0, 110.0, 112.0, 115.0, 116.0, 117.0, 118.0], [1.0] * 170)
    assert watch(Plateau, risen, settings).incidents == []
    assert watch(Plateau, bursts([100.0] * 8, [1.0] * 170), settings).incidents != []
