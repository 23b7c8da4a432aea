"""`explained-variance`: values that explain nothing after a long warm-up, are worse than none, or are no numbers."""

from __future__ import annotations

import math
import random

import pytest
from msgspec.structs import replace

from mission_tui.fleet.health import Settings
from mission_tui.fleet.health.rules.explained_variance import ExplainedVariance
from mission_tui.fleet.health.settings import settings_of
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from tests.fleet.health.one_rule import ABSENT, TRACES
from tests.fleet.health.rounds import Round, judged, judged_outside, labels, row

dice = random.Random(13)
NOISE = [dice.uniform(0.0, 1.0) for _ in range(1000)]
WORSE = [20.0, *[5.0, 5.1] * 200]
"""A return that has been better."""

LONG = Settings(total_timesteps=600 * 1024, rollout=1024)


def explained(
    values: list[float], returns: list[float] | None = None, settings: Settings = LONG, **more: float
) -> Round:
    """Updates with these explained variances; the return wanders unless it is given."""
    lines = zip(values, returns or NOISE, strict=False)
    return judged(
        ExplainedVariance,
        [row(n, {"explained_variance": value, "ret": ret, **more}) for n, (value, ret) in enumerate(lines, start=1)],
        settings,
    )


@pytest.mark.parametrize(("budget", "first"), [(None, 100), (600, 100), (3000, 300), (150, 50), (96, 32)])
def test_the_warm_up_is_long(budget: int | None, first: int) -> None:
    """100 updates or 10 % of the budget, the longer; of a short budget no more than a third."""
    settings = Settings() if budget is None else Settings(total_timesteps=budget * 1024, rollout=1024)
    assert explained([0.0] * 400, WORSE, settings).changes == [(first, "warning")]


def test_24_of_30_updates_are_needed() -> None:
    """Four of five poor updates are a warning, three of four are not."""
    assert [severity for _, severity in explained([0.0, 0.0, 0.0, 0.0, 0.5] * 40).changes] == ["warning"]
    assert explained([0.0, 0.0, 0.0, 0.5] * 50).changes == []
    assert explained([0.06] * 200).changes == []


def test_it_is_over_after_thirty_good_updates() -> None:
    """Between 0.05 and 0.1 nothing changes."""
    assert explained([0.0] * 120 + [0.07] * 60).changes == [(100, "warning")]
    assert explained([0.0] * 120 + [0.2] * 30).changes == [(100, "warning"), (150, None)]


def test_a_rising_return_excuses_it() -> None:
    """Values lag behind a policy that learns; once the return is flat below its best they have no excuse."""
    rising = [float(n) for n in range(200)]
    assert explained([0.0] * 200, rising).changes == []
    assert explained([-0.6] * 200, rising).changes == []
    assert [severity for _, severity in explained([0.0] * 260, rising + [99.0] * 60).changes] == ["warning"]


def test_a_return_that_comes_back_from_a_fall_excuses_it() -> None:
    """It finds no new best for long, and rises all the same; where it stays down, nothing does."""
    fallen = [20.0] * 10 + [0.0] * 50
    assert explained([0.0] * 160, fallen + [0.15 * n for n in range(100)]).changes == []
    assert explained([0.0] * 160, fallen + [0.0] * 100).changes == [(100, "warning")]


def test_a_return_at_rest_at_its_best_excuses_it() -> None:
    """Nothing is left to be gained, solved or not: returns hardly vary, so hardly anything is left to explain."""
    risen = [min(200.0, 10.0 * n) for n in range(300)]
    assert explained([dice.gauss(-0.2, 0.3) for _ in range(300)], risen).changes == []


def test_before_the_first_reward_there_is_nothing_to_explain() -> None:
    """Values may be far worse than a constant while their loss comes down; if it does not, they learn nothing."""
    falling = [row(n, {"explained_variance": -2.0, "ret": 0.0, "value_loss": 1.0 / n}) for n in range(1, 300)]
    assert judged(ExplainedVariance, falling, LONG).changes == []
    stuck = [row(n, {"explained_variance": -0.2, "ret": 0.0, "value_loss": 1.0}) for n in range(1, 300)]
    assert judged(ExplainedVariance, stuck, LONG).changes == [(100, "warning")]
    # A small network is near the only return that there is after one update, and its loss falls no further.
    at_once = [row(n, {"explained_variance": -12.0, "ret": 0.0, "value_loss": 1e-6}) for n in range(2, 300)]
    at_once.insert(0, row(1, {"explained_variance": -8.0, "ret": 0.0, "value_loss": 1e-3}))
    assert judged(ExplainedVariance, at_once, LONG).changes == []


def test_a_reward_that_was_met_by_chance_is_nothing_to_explain() -> None:
    """One success in the first updates, none for long, and then it is learned: values are not held against updates
    whose targets hardly vary, neither then nor once there is a reward. Where targets vary as ever they are.
    """

    def looking(loss: float) -> Round:
        met = [(-3.0, 0.02, 0.01)] * 5 + [(-0.5, loss, 0.0)] * 115
        found = [(-0.5 + 0.1 * n, 0.05, 0.05 * n) for n in range(15)] + [(0.9, 0.01, 0.9)] * 30
        lines = [
            row(n, {"explained_variance": value, "value_loss": error, "ret": ret})
            for n, (value, error, ret) in enumerate([*met, *found], start=1)
        ]
        return judged(ExplainedVariance, lines, replace(LONG, total_timesteps=200 * 1024))

    assert looking(1e-8).changes == []
    assert [severity for _, severity in looking(0.02).changes][:1] == ["warning"]


def test_noise_alone_needs_no_explanation() -> None:
    """A return that has not moved beyond its noise, and values that are no better than a constant, nor worse."""
    chance = [dice.gauss(0.0, 0.02) for _ in range(300)]
    assert explained(chance, [-200.0 + wander for wander in NOISE]).changes == []
    assert explained([0.6] * 60 + chance).changes != []


def test_a_solved_task_excuses_it() -> None:
    """Where every episode goes the same way there is no variance to explain."""
    assert explained([-1.0] * 300, settings=Settings(reward_threshold=0.2)).changes == []


def test_worse_than_none_is_critical() -> None:
    """A median of 20 below -0.5 with a poor return; single disasters do not count."""
    seen = explained([0.5] * 150 + [-0.6] * 60)
    assert seen.changes[-1][1] == "critical"
    assert 160 <= seen.changes[-1][0] <= 162
    assert seen.words[-1].sentence.startswith(
        "the value function is worse than a constant: explained variance -0.6 (median of 20 updates)"
    )
    assert seen.words[-1].threshold == -0.5
    assert explained([0.5, 0.5, -50.0] * 100).changes == []


def test_what_was_worse_before_trends_could_be_judged_is_no_critical() -> None:
    """Values that have come to explain returns since are not worse than a constant, whatever the return does."""
    assert explained([-0.9] * 75 + [0.6] * 60, WORSE).changes == []
    assert explained([-0.9] * 95 + [0.6] * 60, WORSE).changes[0] == (100, "critical")


def test_values_that_explain_what_varies_are_worse_than_none_only_where_nothing_does() -> None:
    """Of pieces of one long episode most have returns that hardly vary, and values miss those by next to nothing."""

    def said(loss_of_pieces: float) -> Round:
        lines = []
        for n in range(1, 301):
            ends = n % 6 == 0
            value, loss = (0.8, 0.1) if ends else (-2.0, loss_of_pieces)
            lines.append(row(n, {"explained_variance": value, "value_loss": loss, "ret": WORSE[n - 1]}))
        return judged(ExplainedVariance, lines, LONG)

    assert said(0.005).changes == []
    assert "critical" in {severity for _, severity in said(0.5).changes}


def test_nan_means_constant_returns_unless_they_vary() -> None:
    """Twenty NaN in a row are critical only when the mean return changed each time."""
    assert explained([0.5] * 10 + [math.nan] * 19).changes == []
    seen = explained([0.5] * 10 + [math.nan] * 20)
    assert seen.changes == [(30, "critical")]
    assert seen.words[0].sentence == "explained variance has been nan for 20 updates while the returns vary"
    assert explained([math.nan] * 100, [7.0] * 100).changes == []
    assert explained([math.nan, math.nan, 0.5] * 60).changes == []


SPEC = Spec(preset="p", env=EnvSpec(id="X", n_envs=1), run=RunSpec(total_timesteps=600 * 2048))


@pytest.mark.parametrize(
    ("ppo", "normalize", "value_loss", "cause", "assignments"),
    [
        (
            {},
            False,
            400.0,
            "miss returns by about 20 (root of the value loss), and rewards are not",
            None,
        ),
        ({"gamma": 0.999}, True, 0.1, "gamma 0.999 looks 1,000 steps ahead", "ppo.gamma=0.99"),
        ({}, True, 0.1, "rewards are normalised; gamma 0.99 looks 100 steps ahead", "ppo.vf_coef=1"),
        ({"vf_coef": 1.0}, True, 0.1, "the value loss has weight 1", None),
    ],
)
def test_cause_and_advice_follow_the_settings(
    ppo: dict[str, float], normalize: bool, value_loss: float, cause: str, assignments: str | None
) -> None:
    """Scale first, then horizon, then weight, then the net; `--set` takes the words."""
    spec = Spec(preset="p", env=EnvSpec(id="X", n_envs=1, normalize=normalize), ppo=PpoSpec(**ppo), run=SPEC.run)  # type: ignore[arg-type]
    words = explained([0.01, *[0.0] * 149], settings=settings_of(spec), value_loss=value_loss).words[0]
    assert cause in words.cause
    assert words.advice_set == (() if assignments is None else (assignments,))
    assert not words.advice_set or change(spec, words.advice_set) != spec


def test_a_horizon_beyond_short_episodes_is_not_to_be_lowered() -> None:
    """Values look no further than an episode goes."""
    spec = Spec(preset="p", env=EnvSpec(id="X", n_envs=1, normalize=True), ppo=PpoSpec(gamma=1.0), run=SPEC.run)
    for length, assignment in ((8.0, "ppo.vf_coef=1"), (400.0, "ppo.gamma=0.99")):
        tags = {"value_loss": 0.1, "rollout/ep_len_mean": length}
        lines = [row(n, {**tags, "explained_variance": 0.01 * (n < 2), "ret": NOISE[n]}) for n in range(1, 151)]
        words = judged(ExplainedVariance, lines, settings_of(spec)).words[0]
        assert words.advice_set == (assignment,)


def test_rewards_that_are_too_small_are_the_cause() -> None:
    """No network misses by less than a thousandth; that rewards are normalised in a log of returns alone is known by
    larger errors.
    """
    small = [1e-6 * value for value in WORSE]
    words = explained([0.0] * 150, small, value_loss=1e-6).words[0]
    assert words.cause == (
        "values miss returns by about 0.001 (root of the value loss); no mean return was as much as 0.1 of that: too "
        "little to be learned"
    )
    assert words.advice == "scale the rewards up or normalise them, in a new training"
    assert "too little" not in explained([0.0] * 150, small, value_loss=0.5).words[0].cause


def test_values_that_were_good_say_until_when() -> None:
    """The same settings taught them once, so the cause asks first what has changed since."""
    words = explained([0.8] * 100 + [-0.7] * 60, value_loss=400.0).words[-1]
    assert words.cause.startswith(
        "values explained returns until about update 100 (median 0.8 at best): look at what has changed since in what "
        "the environment pays and shows; values miss returns by about 20"
    )
    assert words.advice == (
        "look for what changed in the environment or its rewards; if nothing did, normalise rewards, in a new training "
        "(in your script: VecNormalize(norm_obs=False, norm_reward=True) around the environments)"
    )
    assert "explained returns until" not in explained([0.0] * 150).words[-1].cause
    rare = explained([0.8] * 100 + [-0.7] * 60, value_loss=1e-3).words[-1]
    assert rare.advice == "give the value function a larger network of its own"


def test_a_rate_that_teaches_values_next_to_nothing_is_named() -> None:
    """One gradient step of 1e-4 an update is a fortieth of the reference; a schedule may have meant to end there."""
    slow = Settings(learning_rate=1e-4, gradient_steps=1, vf_coef=0.5, gamma=0.99)
    words = explained([-0.7] * 160, settings=slow, value_loss=0.01).words[-1]
    assert words.cause.startswith("1 gradient steps x 0.0001 per update is 0.025 x the reference")
    assert (words.advice, words.advice_set) == ("raise the learning rate", ("ppo.learning_rate=0.004",))
    enough = explained([-0.7] * 160, settings=replace(slow, gradient_steps=16), value_loss=0.01).words[-1]
    assert enough.advice_set == ("ppo.vf_coef=1",)


def test_values_that_never_differed_are_of_observations_that_do_not() -> None:
    """An untrained network tells any two states apart; rounding alone leaves 1e-7. Later its units may be saturated."""
    rounding = [0.0, 1.2e-7, -1.2e-7, 0.0] * 60
    words = explained(rounding, settings=Settings(normalize_reward=False), value_loss=60.0).words[0]
    assert words.cause.endswith("observations never vary")
    assert words.advice.startswith("look at what the environment shows the policy")
    saturated = explained([0.01, *rounding], settings=Settings(normalize_reward=False), value_loss=60.0).words[0]
    assert "observations" not in saturated.cause


def test_absurd_values_are_survived() -> None:
    """Infinities are judged as what they are, and a log without the signal is silence."""
    assert explained([-math.inf] * 300).changes != []
    assert explained([math.inf] * 300).changes == []
    assert judged(ExplainedVariance, [row(n, {"ret": 1.0}) for n in range(1, 200)]).changes == []


@pytest.mark.skipif(not TRACES.is_dir(), reason=ABSENT)
def test_outside_runs_with_failing_values_are_found() -> None:
    """All whose values failed, one incident each, and no healthy one; local optima are for `policy-std` to find.

    Nothing is said of one whose values are weak while its return rises fourfold.
    """
    failed, thriving = ("value_fail", "value_weak", "fail_no_learning"), "gridtreasure_1733868261"
    seen = {name: judged_outside(ExplainedVariance, name).changes for name in labels()}
    found = {name for name, changes in seen.items() if changes}
    assert found == {name for name, label in labels().items() if label in failed} - {thriving}
    assert all(sum(severity is None for _, severity in changes) <= 1 for changes in seen.values())
