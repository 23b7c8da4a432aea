"""`entropy-collapse`: half of the entropy gone in a tenth of the budget, or all of it, while the return is poor."""

from __future__ import annotations

import math
import random

import pytest

from mission_tui.fleet.health import Settings, judge_of
from mission_tui.fleet.health.rules.entropy import EntropyCollapse
from mission_tui.fleet.health.settings import settings_of
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from mission_tui.fleet.specs.thresholds import EntropyCollapseLimits, Limits
from tests.fleet.health.one_rule import ABSENT, TRACES
from tests.fleet.health.rounds import Round, judged, judged_outside, labels, row

SETTINGS = Settings(total_timesteps=200 * 1024, rollout=1024, ent_coef=0.0, learning_rate=3e-4, gradient_steps=16)
"""200 updates: a tenth is 20."""
dice = random.Random(3)
NOISE = [dice.uniform(0.0, 1.0) for _ in range(400)]


def fallen(
    ratios: list[float], returns: list[float] | None = None, settings: Settings = SETTINGS, **more: float
) -> Round:
    """Updates with these shares of the largest entropy; the return wanders unless it is given."""
    lines = zip(ratios, returns or NOISE, strict=False)
    return judged(
        EntropyCollapse,
        [row(n, {"policy/entropy_ratio": ratio, "ret": ret, **more}) for n, (ratio, ret) in enumerate(lines, start=1)],
        settings,
    )


def test_a_slow_fall_is_ordinary() -> None:
    """From 1 to 0.1 over a whole budget, with a return that gets nowhere."""
    assert fallen([1.0 - 0.0045 * n for n in range(200)]).changes == []


def test_half_gone_in_a_tenth_of_the_budget_is_a_warning() -> None:
    """It opens when the smoothed share is below half of what it was, and is over a tenth of the budget later."""
    seen = fallen([0.9] * 60 + [0.4] * 60)
    assert seen.changes == [(63, "warning"), (84, None)]
    words = seen.words[0]
    assert words.sentence.startswith(
        "entropy fell from 90% to 40% of its maximum within 20 updates (10% of the budget)"
    )
    assert (words.signal, words.threshold) == ("policy/entropy_ratio", 0.45)
    assert fallen([0.9] * 60 + [0.46] * 60).changes == []
    assert fallen([0.9] * 60 + [0.4] * 2 + [0.9] * 60).changes == []


def test_recovery_ends_it() -> None:
    """Three quarters of what it was is enough."""
    assert fallen([0.9] * 60 + [0.4] * 8 + [0.8] * 60).changes == [(63, "warning"), (71, None)]


def test_learning_may_cost_entropy() -> None:
    """The same falls say nothing while the return rises, rests at its best, or the task is solved."""
    rising = [float(n) for n in range(120)]
    collapse = [0.9] * 60 + [0.01] * 60
    assert fallen(collapse, rising).changes == []
    assert fallen(collapse, rising[:60] + [59.0] * 60).changes == []
    assert (
        fallen(collapse, settings=Settings(total_timesteps=204_800, rollout=1024, reward_threshold=0.1)).changes == []
    )
    assert fallen(collapse).changes != []


def test_all_gone_is_critical() -> None:
    """Below 0.02 for five updates with a return that moves nowhere: once flat it stays critical."""
    flat = [1.0, 2.0] * 120
    seen = fallen([0.9] * 60 + [0.01] * 100, flat)
    assert seen.changes == [(63, "warning"), (65, "critical")]
    assert seen.words[1].sentence.startswith("the policy has stopped exploring: entropy at 1.00% of its maximum, and")
    assert seen.words[1].threshold == 0.02
    assert fallen([0.9] * 60 + [0.01] * 4 + [0.9] * 60, flat).changes == [(63, "warning"), (67, None)]


def test_a_falling_return_is_a_warning_until_the_policy_stands_still() -> None:
    """Not flat, and a KL that moves: no more than a warning; KL about 0 makes it critical."""
    falling = [100.0 - n for n in range(160)]
    ratios = [0.9] * 60 + [0.01] * 40
    assert [severity for _, severity in fallen(ratios, falling, approx_kl=0.01).changes] == ["warning"]
    assert [severity for _, severity in fallen(ratios, falling, approx_kl=1e-6).changes] == ["warning", "critical"]


def test_once_critical_it_stays_so_while_the_entropy_is_gone() -> None:
    """A return that stirs again takes nothing back."""
    stirring = [1.0] * 100 + [1.0 - 0.5 * n for n in range(40)]
    assert [severity for _, severity in fallen([0.9] * 60 + [0.01] * 80, stirring).changes] == ["warning", "critical"]


def test_thresholds_are_the_runs_own() -> None:
    """A lower limit for what counts as gone."""
    rows = [row(n, {"policy/entropy_ratio": 0.01, "ret": 1.0}) for n in range(1, 80)]
    limits = Limits(entropy_collapse=EntropyCollapseLimits(critical=0.005))
    assert judged(EntropyCollapse, rows, SETTINGS).changes == [(30, "critical")]
    assert judged(EntropyCollapse, rows, SETTINGS, limits).changes == []


SPEC = Spec(preset="p", env=EnvSpec(id="X", n_envs=1), run=RunSpec(total_timesteps=200 * 2048))


@pytest.mark.parametrize(
    ("ppo", "cause", "assignment"),
    [
        (PpoSpec(n_steps=2048, batch_size=2048, n_epochs=4), "there is no entropy bonus", "ppo.ent_coef=0.01"),
        (PpoSpec(n_steps=2048, batch_size=2048, n_epochs=4, ent_coef=0.02), "ppo.ent_coef = 0.02", "ppo.ent_coef=0.06"),
        (
            PpoSpec(n_steps=2048, batch_size=2048, n_epochs=4, ent_coef=0.2),
            "ppo.ent_coef = 0.2 is too small",
            "ppo.learning_rate=0.00015",
        ),
        (PpoSpec(n_steps=2048, batch_size=64, n_epochs=10), "24 x the reference", "ppo.learning_rate=0.00015"),
    ],
)
def test_cause_and_advice_are_computed_from_the_settings(ppo: PpoSpec, cause: str, assignment: str) -> None:
    """The bonus is raised where there is room for it, else the learning rate comes down; `--set` takes the words."""
    spec = Spec(preset="p", env=SPEC.env, ppo=ppo, run=SPEC.run)
    words = fallen([0.9] * 60 + [0.01] * 60, settings=settings_of(spec)).words[-1]
    assert cause in words.cause
    assert words.advice_set == (assignment,)
    assert change(spec, words.advice_set) != spec


def test_where_the_same_settings_taught_it_once_the_environment_comes_first() -> None:
    """Half the rate cures no policy whose rewards were reversed; one that never learned is not told so."""
    spec = Spec(preset="p", env=SPEC.env, ppo=PpoSpec(n_steps=2048, batch_size=64, n_epochs=10), run=SPEC.run)
    risen = [float(n) for n in range(60)] + [20.0 + n % 2 for n in range(60)]
    first = (
        "look for what changed in the environment or its rewards; if nothing did, go back to a checkpoint from before"
    )
    for returns, asks in ((risen, True), (None, False)):
        words = fallen([0.9] * 60 + [0.01] * 60, returns, settings=settings_of(spec)).words[-1]
        assert words.advice.startswith(first) is asks
        assert words.advice_set == ("ppo.learning_rate=0.00015",)


def test_foreign_logs_are_judged_only_when_all_is_gone_and_surely_discrete() -> None:
    """2 % of the start is at most 2 % of the maximum; without the clip range of SB3, or with a deviation, silence."""

    def outside(last: float = -0.01, **tags: float) -> Round:
        losses = [-1.3] * 60 + [last] * 60
        return judged(
            EntropyCollapse, [row(n, {"entropy_loss": x, "ret": 1.0, **tags}) for n, x in enumerate(losses, 1)]
        )

    seen = outside(clip_range=0.2)
    assert [severity for _, severity in seen.changes] == ["critical"]
    assert seen.words[0].signal == "train/entropy_loss"
    assert seen.words[0].threshold == pytest.approx(-0.026)
    assert seen.words[0].advice_set == ()
    assert outside(-0.3, clip_range=0.2).changes == []
    assert outside().changes == []
    assert outside(clip_range=0.2, std=0.5).changes == []


def test_the_smallest_absurdities_are_survived() -> None:
    """NaN and infinities say nothing, and no share at all is silence."""
    assert fallen([math.nan, math.inf, -math.inf] * 40).changes == []
    assert judged(EntropyCollapse, [row(n, {"ret": 1.0}) for n in range(1, 80)]).changes == []
    assert judge_of(SPEC).findings == ()


@pytest.mark.skipif(not TRACES.is_dir(), reason=ABSENT)
def test_quiet_on_healthy_runs_of_others() -> None:
    """None of the healthy traces, 13 of them discrete, raises a finding."""
    for name, label in labels().items():
        if label == "healthy":
            assert judged_outside(EntropyCollapse, name).changes == [], name
