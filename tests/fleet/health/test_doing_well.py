"""Doing well: solved by the environment's own word, at a new best, or a clear rise that was kept."""

from __future__ import annotations

import random
from collections.abc import Iterable

from msgspec.structs import replace

from mission_tui.fleet.health import Settings
from mission_tui.fleet.health.doing_well import Success
from mission_tui.fleet.health.returns import Returns
from mission_tui.fleet.health.rule import Row, RuleContext
from mission_tui.fleet.health.usual_settings import LossParts
from mission_tui.fleet.specs.thresholds import Limits
from tests.fleet.health.rounds import row

dice = random.Random(5)
RISE = [float(number) for number in range(100)]
REST = [98.0 + dice.uniform(-2.0, 2.0) for _ in range(100)]
WANDER = [dice.uniform(0.0, 1.0) for _ in range(150)]


def after(lines: Iterable[Row], settings: Settings | None = None) -> Success:
    """What is thought of a run once `lines` are seen."""
    returns = Returns(30, 100)
    success = Success(RuleContext(settings or Settings(), Limits(), returns, LossParts(Settings())))
    for line in lines:
        returns.update(line.metrics.get("rollout/ep_rew_mean"), line.episodes)
        success.update(line)
    return success


def said(returns: Iterable[float], **tags: float) -> list[Row]:
    """Updates with these mean returns, and `tags` of the room `rollout/` in each."""
    more = {f"rollout/{name}": value for name, value in tags.items()}
    return [row(number, {"ret": value, **more}) for number, value in enumerate(returns, start=1)]


def test_rising_and_a_kept_rise_are_well() -> None:
    """A return on its way up, and one that rests at its best; a dip of 8 updates changes nothing."""
    assert after(said(RISE[:40])).well
    assert not after(said(RISE + REST + [50.0] * 8)).poor
    rested = after(said(RISE + REST))
    assert rested.near_best
    assert not rested.poor


def test_wandering_is_poor() -> None:
    """A return that moves and gets nowhere, whatever its last slope."""
    assert after(said(WANDER)).poor
    assert not after(said(WANDER + [1.0] * 8)).near_best
    assert "neither rising nor near its best" in after(said(WANDER)).complaint


def test_a_fall_is_poor_until_it_is_made_good() -> None:
    """Below 90 % of the way to the best for 12 of 16 updates; over once 16 in a row were well."""
    fallen = RISE + [50.0] * 50
    assert after(said(fallen)).poor
    assert after(said(fallen + [99.0] * 10)).poor
    assert not after(said(fallen + [99.0] * 80)).poor


def test_nothing_is_known_of_a_run_without_returns() -> None:
    """Neither well nor poor, and fewer than 16 returns are too few."""
    assert not after(row(number, {"approx_kl": 0.01}) for number in range(1, 50)).poor
    assert not after(said(WANDER[:15])).poor


def test_solved_is_the_environments_word() -> None:
    """Its threshold, its success rate, or its winning outcomes: each is enough, and the last two go stale never."""
    assert not after(said(WANDER)).solved
    assert after(said(WANDER), Settings(reward_threshold=0.1)).solved
    assert after(said(WANDER, success_rate=0.95)).solved
    assert not after(said(WANDER, success_rate=0.85)).solved
    won = [replace(line, outcomes={"captured": 19, "timeout": 1}) for line in said(WANDER)]
    assert after(won).solved
    assert not after(won).poor
    assert not after(replace(line, outcomes={"captured": 1, "timeout": 19}) for line in said(WANDER)).solved


def test_a_best_that_the_environment_calls_nothing_is_not_near_the_best() -> None:
    """Resting far below the threshold, or with nothing won, is poor, and the complaint says which."""
    low = said(RISE + REST)
    assert "far from the 1000 that count" in after(low, Settings(reward_threshold=1000.0)).complaint
    assert after(low, Settings(reward_threshold=1000.0)).poor
    assert not after(low, Settings(reward_threshold=150.0)).poor
    assert after(said(RISE + REST, success_rate=0.01)).poor
    idle = [replace(line, outcomes={"timeout": 5}) for line in low]
    assert after(idle, Settings(env_id="MissionGym-v0")).poor
    assert not after(idle, Settings(env_id="CartPole-v1")).poor


def test_a_nan_return_is_passed_over() -> None:
    """What is no number moves nothing."""
    assert not after(said([*RISE, *[float("nan")] * 50, *REST])).poor


def test_chance_alone_keeps_nobody_from_its_best() -> None:
    """A mean of a hundred successes and failures wanders below the best it ever had, and is as good as ever."""
    chance = random.Random(11)
    window = [0.0] * 100
    returns = Returns(30, 100)
    success = Success(RuleContext(Settings(), Limits(), returns, LossParts(Settings())))
    never = True
    for number in range(1, 300):
        skill = min(0.7, number / 60.0)
        window = [*window, *(float(chance.random() < skill) for _ in range(25))][-100:]
        line = row(number, {"ret": sum(window) / 100.0})
        returns.update(line.metrics["rollout/ep_rew_mean"], 25)
        success.update(line)
        never = never and not (number > 120 and success.poor)
    assert never
