"""A value function that nothing teaches, or that looks no step ahead: by the settings, and by the losses of a log."""

from __future__ import annotations

import math
import random

from msgspec.structs import replace

from mission_tui.fleet.health import Settings
from mission_tui.fleet.health.rule import Row
from mission_tui.fleet.health.rules.explained_variance import ExplainedVariance
from mission_tui.fleet.health.usual_settings import LossParts, evidence_key, usual_first
from tests.fleet.health.rounds import Round, judged, row

OURS = Settings(ours=True, total_timesteps=200 * 1024, rollout=1024, gamma=0.99, vf_coef=0.5)


def flat(
    updates: int = 60,
    length: float = 40.0,
    *,
    level: float = 10.0,
    weight: float = 0.5,
    loss: float = 30.0,
    ev: float = 0.0,
) -> list[Row]:
    """Updates of a run whose return wanders about `level`, with the losses of a value loss of that `weight`."""
    dice = random.Random(3)
    found = []
    for n in range(1, updates + 1):
        value, policy = loss * dice.uniform(0.8, 1.2), -0.01 * dice.random()
        tags = {
            "ret": level * dice.uniform(0.9, 1.1),
            "rollout/ep_len_mean": length,
            "value_loss": value,
            "policy_gradient_loss": policy,
            "loss": policy + weight * value * dice.uniform(0.6, 1.4) - 0.007,
            "explained_variance": ev,
        }
        found.append(row(n, tags))
    return found


def said(lines: list[Row], settings: Settings | None = None) -> Round:
    """What is said of `lines`."""
    return judged(ExplainedVariance, lines, settings or Settings(total_timesteps=200 * 1024, rollout=1024))


def test_a_value_loss_without_weight_is_known_from_the_settings() -> None:
    """Said after six updates, long before values should explain anything, with the usual weight as advice."""
    seen = said(flat(), Settings(ours=True, vf_coef=0.0, gamma=0.99, total_timesteps=200 * 1024, rollout=1024))
    assert seen.changes == [(6, "warning")]
    assert "nothing teaches the value function: ppo.vf_coef = 0" in seen.words[0].sentence
    assert seen.words[0].advice_set == ("ppo.vf_coef=0.5",)
    assert said(flat(), OURS).changes == []


def test_where_the_return_has_risen_without_values_the_advice_is_to_compare_first() -> None:
    """A run that learns all the same may do worse with them, and a setting that comes first says so, too. It is to look
    a little ahead where it did not look at all.
    """
    settings = Settings(ours=True, vf_coef=0.0, gamma=0.99, total_timesteps=200 * 1024, rollout=1024)
    returns = [*(4.0 * n for n in range(1, 21)), *(50.0 + n % 2 for n in range(40))]
    risen = [
        replace(line, metrics={**line.metrics, "rollout/ep_rew_mean": value})
        for line, value in zip(flat(), returns, strict=True)
    ]
    words = said(risen, settings).words[0]
    compare = (
        "the return has risen without that, so compare first (`mission-tui try RUN`), and leave it where that hurts"
    )
    assert words.advice == f"give the value loss a weight; {compare}"
    assert words.advice_set == ("ppo.vf_coef=0.5",)
    assert evidence_key("explained-variance", words.advice, "ppo.vf_coef=0.5") == ("any", "ppo.vf_coef")
    assert usual_first("explained-variance", words, settings, LossParts(settings), risen[-1]) == words
    assert "compare" not in said(flat(), settings).words[0].advice
    assert words.compare_first
    assert not said(flat(), settings).words[0].compare_first
    near = replace(settings, vf_coef=0.5, gamma=0.0)
    words = said(risen, near).words[0]
    assert words.advice_set == ("ppo.gamma=0.95",)
    assert usual_first("explained-variance", words, near, LossParts(near), risen[-1]) == words
    assert usual_first("drawdown", words, replace(near, learning_rate=0.3), LossParts(near), risen[-1]) != words


def test_what_was_learned_without_values_is_not_forgotten_when_the_return_gets_noisy() -> None:
    """A finding that said to compare first goes on saying so."""
    settings = Settings(ours=True, vf_coef=0.0, gamma=0.99, total_timesteps=200 * 1024, rollout=1024)
    dice = random.Random(7)
    returns = (
        [10.0, 9.0] * 5 + [10.0 + 3.5 * n for n in range(20)] + [80.0 + dice.uniform(-100, 100) for _ in range(40)]
    )
    seen = said([row(n, {"ret": value}) for n, value in enumerate(returns, start=1)], settings)
    assert seen.changes[0] == (6, "warning")
    assert seen.changes[-1] == (64, "warning")
    assert [it.compare_first for it in seen.words] == [False] + [True] * (len(seen.words) - 1)


def test_a_value_loss_without_weight_is_seen_in_the_losses_of_a_log() -> None:
    """The last minibatch's loss stays next to that of the policy, although values miss by far."""
    seen = said(flat(weight=0.0))
    assert seen.changes == [(23, "warning")]
    assert "train/loss is that of the policy alone" in seen.words[0].sentence
    assert said(flat(weight=0.19)).changes == []
    assert said(flat(weight=0.0, loss=0.02)).changes == []


def test_no_horizon_is_known_from_the_settings() -> None:
    """A gamma of 0 where episodes are long and the return stays; nothing of episodes that are over at once."""
    settings = Settings(ours=True, vf_coef=0.5, gamma=0.0, total_timesteps=200 * 1024, rollout=1024)
    seen = said(flat(), settings)
    assert [severity for _, severity in seen.changes] == ["warning"]
    assert "values look 1 steps ahead in episodes of 40: ppo.gamma = 0" in seen.words[0].sentence
    assert seen.words[0].advice_set == ("ppo.gamma=0.99",)
    assert said(flat(length=1.0), settings).changes == []


def test_a_near_horizon_that_is_all_a_task_needs_is_left_alone() -> None:
    """The return rises and comes to rest at its best."""
    settings = Settings(ours=True, vf_coef=0.5, gamma=0.0, total_timesteps=200 * 1024, rollout=1024)
    lines = [row(n, {"ret": min(8.0, 0.5 * n), "rollout/ep_len_mean": 8.0, "value_loss": 0.1}) for n in range(1, 100)]
    assert said(lines, settings).changes == []


def test_a_known_fault_is_told_as_soon_as_the_return_stops_rising() -> None:
    """A rise excuses it for 16 updates and not for 32; one that noise nearly hides is one."""
    blind = Settings(ours=True, vf_coef=0.0, gamma=0.99, total_timesteps=200 * 1024, rollout=1024)
    rise = [2.0 * min(n, 20) for n in range(1, 61)]
    lines = [row(n, {"ret": it - min(30.0, max(0, n - 22) * 3.0), "value_loss": 9.0}) for n, it in enumerate(rise, 1)]
    assert said(lines, blind).changes == [(31, "warning")]
    noisy = [2.3, 1.1, 1.9, 2.7, 3.6, 4.8, 3.1, 5.1, 5.0, 6.3, 6.1, 5.9]
    assert said([row(n, {"ret": it}) for n, it in enumerate(noisy, start=1)], blind).changes == []


def test_targets_that_are_all_the_same_look_no_step_ahead() -> None:
    """Where each step pays 1, a gamma of 0 makes all targets 1; SB3 says nan, or what rounding makes of it. Either is
    known after twelve updates, and gamma is named and not what SB3 says.
    """
    for ev in (-1.8e12, math.nan):
        lines = flat(length=30.0, loss=1e-5, ev=ev)
        lengths = [line.metrics["rollout/ep_rew_mean"] * 3.0 for line in lines]
        seen = said(
            [
                replace(line, metrics={**line.metrics, "rollout/ep_len_mean": length})
                for line, length in zip(lines, lengths, strict=True)
            ]
        )
        assert [severity for _, severity in seen.changes] == ["warning"]
        assert seen.changes[0][0] <= 13
        assert "as with a gamma near 0" in seen.words[0].sentence
        assert seen.words[0].advice_set == ("ppo.gamma=0.99",)


def test_a_return_that_holds_is_chance_where_all_targets_are_the_same() -> None:
    """No action is worth more than another, so nothing was learned; where steps were paid ever more, all may be."""
    dice = random.Random(4)
    tags = {"value_loss": 1e-5, "explained_variance": math.nan}
    means = [min(45.0, 20.0 + n) + dice.gauss(0.0, 0.8) for n in range(80)]
    drifted = [row(n, tags | {"ret": it, "rollout/ep_len_mean": it}) for n, it in enumerate(means, start=1)]
    seen = said(drifted)
    assert [severity for _, severity in seen.changes] == ["warning"]
    assert seen.words[0].sentence.endswith("so that none can be learned to be better")
    learned = [row(n, tags | {"ret": it, "rollout/ep_len_mean": 45.0}) for n, it in enumerate(means, start=1)]
    assert {severity for _, severity in said(learned).changes} <= {"info", None}


def test_good_values_of_distances_are_no_near_horizon() -> None:
    """Each step pays about -1. Values that look far explain nearly all of that too, but miss by about a reward."""
    near = flat(length=50.0, level=-50.0, loss=1e-3, ev=0.995)
    assert [severity for _, severity in said(near).changes] == ["warning"]
    assert said(flat(length=50.0, level=-50.0, loss=0.7, ev=0.995)).changes == []


def test_good_values_of_a_task_that_was_solved_at_once_are_no_near_horizon() -> None:
    """Where every episode returns the same there is no chance that values could not foresee, whatever the horizon."""
    for level in (-12.0, 0.97):
        lines = [
            replace(line, metrics={**line.metrics, "rollout/ep_rew_mean": level})
            for line in flat(length=18.0, loss=2e-6, ev=0.998)
        ]
        assert said(lines).changes == []


def test_values_that_miss_by_one_reward_only_look_no_step_ahead() -> None:
    """One reward of 1 at the end of three in a hundred episodes: with any horizon values would miss by more."""
    lines = flat(length=20.0, level=0.03, loss=0.0016, ev=0.3)
    assert [severity for _, severity in said(lines).changes] == ["warning"]
    assert said(flat(length=20.0, level=0.03, loss=0.02, ev=0.0)).changes == []


def test_targets_that_vary_as_rewards_do_look_no_step_ahead() -> None:
    """Each step pays about -15. What values are to say varies by 11, by 60 with a horizon, by 2 if normalised."""
    near = said(flat(length=40.0, level=-600.0, loss=65.0, ev=0.47))
    assert [severity for _, severity in near.changes] == ["warning"]
    assert "as with a gamma near 0" in near.words[0].sentence
    assert said(flat(length=40.0, level=-600.0, loss=2000.0, ev=0.47)).changes == []
    assert said(flat(length=40.0, level=-600.0, loss=2.0, ev=0.47)).changes == []


def test_targets_that_are_all_alike_hold_no_next_value() -> None:
    """SB3's nan, also while the mean return stays where it is: with any horizon no two targets are the same."""
    still = flat(level=0.0, ev=math.nan)
    assert [severity for _, severity in said(still).changes][:1] == ["warning"]
    assert "seem to look no step ahead" in said(still).words[0].sentence
    assert said(flat(level=0.0, length=2.0, ev=math.nan)).changes == []


def test_useless_values_are_information_while_the_run_holds_its_best() -> None:
    """What was really gained is still there: the setting is named, and nobody is called. Once it is lost, they are."""
    settings = Settings(ours=True, vf_coef=0.0, gamma=0.99, total_timesteps=200 * 1024, rollout=1024)
    dice = random.Random(4)
    tags = {"rollout/ep_len_mean": 40.0, "value_loss": 10.0, "explained_variance": 0.0}
    rising = [row(n, tags | {"ret": min(50.0, n + dice.random())}) for n in range(1, 60)]
    held = [row(n, tags | {"ret": 50.0 - 3.0 * dice.random()}) for n in range(60, 110)]
    seen = said(rising + held, settings)
    assert [severity for _, severity in seen.changes] == ["info"]
    assert "ppo.vf_coef = 0" in seen.words[0].sentence
    lost = [row(n, tags | {"ret": 20.0 + dice.random()}) for n in range(110, 150)]
    assert [severity for _, severity in said(rising + held + lost, settings).changes] == ["info", "warning"]


def test_states_that_are_all_worth_the_same_are_no_near_horizon() -> None:
    """Each step costs about 10 and values have learned the -1,000 that follow everywhere: what they miss by is less
    than a step costs, and they missed by all of it at first.
    """
    costs = flat(length=200.0, level=-2000.0, loss=80.0)
    first = replace(costs[0], metrics={**costs[0].metrics, "train/value_loss": 20_000.0})
    assert "as with a gamma near 0" in said(costs).words[0].sentence
    assert said([first, *costs[1:]]).changes == []


def test_values_of_tiny_rewards_are_no_near_horizon() -> None:
    """What values of rewards of a millionth miss by is a millionth of that again, however far they look."""
    assert said(flat(level=5e-5, loss=1e-10)).changes == []
