"""`grad-norm`: gradients far above their cap, while the return is poor."""

from __future__ import annotations

import math
import random

from msgspec import structs

from mission_tui.fleet.health import Settings
from mission_tui.fleet.health.rules.grad_norm import GradNorm
from mission_tui.fleet.health.settings import settings_of
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import EnvSpec, Normalize, PpoSpec, RunSpec, Spec
from tests.fleet.health.rounds import Round, judged, row

dice = random.Random(17)
NOISE = [dice.uniform(0.0, 1.0) for _ in range(300)]
SETTINGS = Settings(total_timesteps=200 * 1024, rollout=1024, max_grad_norm=0.5)


def norms(
    values: list[float], returns: list[float] | None = None, settings: Settings = SETTINGS, **more: float
) -> Round:
    """Updates with these gradient norms; the return wanders unless it is given."""
    lines = zip(values, returns or NOISE, strict=False)
    return judged(
        GradNorm,
        [row(n, {"grad_norm": value, "ret": ret, **more}) for n, (value, ret) in enumerate(lines, start=1)],
        settings,
    )


def test_a_median_of_ten_caps_is_a_warning() -> None:
    """Over 20 updates, when that is a rise; every other spike, nine caps, and twelve from the start on, are not."""
    seen = norms([1.0] * 40 + [6.0] * 20)
    assert seen.changes == [(51, "warning")]
    assert seen.words[0].sentence.startswith("gradients are 12 x their limit (median of 20 updates, max_grad_norm")
    assert seen.words[0].threshold == 5.0
    assert norms([1.0, 1.0, 600.0] * 60).changes == []
    assert norms([4.5] * 100).changes == []
    assert norms([6.0] * 100).changes == []


def test_the_cap_is_the_runs_own() -> None:
    """The same norm under a cap of 5 is ordinary."""
    assert norms([6.0] * 60, settings=Settings(total_timesteps=204_800, rollout=1024, max_grad_norm=5.0)).changes == []


def test_a_run_that_does_well_may_have_them() -> None:
    """Raw rewards make large gradients and are learned from; a return that falls later fell for another reason."""
    rising = [float(n) for n in range(120)]
    assert norms([60.0] * 120, rising).changes == []
    assert [severity for _, severity in norms([60.0] * 220, rising + NOISE[:100]).changes] == ["info"]


def test_it_does_not_begin_where_the_return_has_just_found_new_bests() -> None:
    """The return was poor until lately; it is neither that now nor far from its best."""
    back = [*NOISE[:36], *(float(n) for n in range(24))]
    assert norms([1.0] * 40 + [6.0] * 20, back).changes == []
    assert norms([1.0] * 40 + [6.0] * 20, NOISE).changes != []


def test_critical_is_an_explosion() -> None:
    """Above 100 caps and ten times what the run is used to; always that large is one once values had their time."""
    seen = norms([1.0] * 100 + [60.0] * 20)
    assert [severity for _, severity in seen.changes] == ["warning", "critical"]
    assert [severity for _, severity in norms([60.0] * 100).changes] == ["info", "warning"]
    assert [words.threshold for words in seen.words] == [5.0, 50.0]


def test_an_explosion_is_a_warning_even_while_the_return_rises() -> None:
    """Rewards that are suddenly a hundred times as large raise the return too; it does not become the usual."""
    seen = norms([1.0] * 100 + [60.0] * 150, [float(n) for n in range(250)])
    assert [severity for _, severity in seen.changes] == ["warning"]
    assert seen.words[0].sentence.endswith("and they were much smaller before")


def test_large_raw_rewards_are_no_trouble_while_the_policy_moves() -> None:
    """1,000 caps from the start on are what such rewards make; what they may cost is seen in the steps."""
    assert [severity for _, severity in norms([500.0] * 100, approx_kl=0.001).changes] == ["info"]
    assert [severity for _, severity in norms([500.0] * 100, approx_kl=1e-5).changes] == ["info", "warning"]
    assert [severity for _, severity in norms([1.0] * 60 + [500.0] * 40, approx_kl=0.01).changes] == ["critical"]


def test_it_is_over_below_half_the_level() -> None:
    """Twenty calm medians, or a return that does well again."""
    risen = [1.0] * 60 + [6.0] * 30
    assert norms(risen + [3.0] * 60).changes == [(71, "warning")]
    assert norms(risen + [1.0] * 40).changes == [(71, "warning"), (120, None)]
    assert norms(risen + [6.0] * 110, NOISE[:90] + [float(n) for n in range(110)]).changes[-1][1] is None


def test_large_values_ask_for_normalised_rewards_and_small_ones_for_a_lower_rate() -> None:
    """The value loss tells a question of scale from an update that is worked too hard."""
    spec = Spec(
        preset="p", env=EnvSpec(id="X", n_envs=1), ppo=PpoSpec(n_steps=2048), run=RunSpec(total_timesteps=200 * 2048)
    )
    for value_loss, cause, assignment in (
        (
            900.0,
            "values miss returns by about 30 (root of the value loss)",
            "env.normalize={ obs = false, reward = true }",
        ),
        (0.1, "320 gradient steps x 0.0003 per update is 24 x the reference", "ppo.learning_rate=0.00015"),
    ):
        words = norms([1.0] * 60 + [6.0] * 30, settings=settings_of(spec), value_loss=value_loss).words[0]
        assert words.cause.startswith(cause)
        assert words.advice_set == (assignment,)
        assert change(spec, words.advice_set) != spec


def test_rewards_of_a_run_that_has_learned_are_normalised_only_where_they_have_another_scale() -> None:
    """Ever larger gradients are no sign of that after a real rise: three trainings that went on so did worse."""
    settings = structs.replace(SETTINGS, normalize_reward=False, normalize_obs=False, ours=True)
    risen = [float(n) for n in range(60)] + [5.0 + noise for noise in NOISE[:60]]
    words = norms([1.0] * 60 + [60.0] * 60, risen, settings, value_loss=900.0).words[0]
    assert words.advice.startswith("look for what changed in the environment or its rewards; if nothing did, normalise")
    assert words.advice_set == ()
    words = norms([1.0] * 60 + [200.0] * 60, risen, settings, value_loss=900.0).words[0]
    assert words.advice_set == ("env.normalize={ obs = false, reward = true }",)


def test_a_normaliser_that_leaves_rewards_as_they_are_is_for_a_new_training() -> None:
    """A resume refuses to have it take rewards, too."""
    env, run = EnvSpec(id="X", normalize=Normalize(reward=False)), RunSpec(total_timesteps=200 * 2048)
    settings = settings_of(Spec(preset="p", env=env, ppo=PpoSpec(n_steps=2048), run=run))
    words = norms([1.0] * 60 + [6.0] * 30, settings=settings, value_loss=900.0).words[0]
    assert words.advice.endswith("in a new training (`mission-tui clone RUN --set env.normalize.reward=true`)")
    assert words.advice_set == ()


def test_absurd_norms_are_survived() -> None:
    """What is not finite belongs to the rule `nan`; an outside log has no norm; a cap of nothing divides nothing."""
    assert norms([math.nan, math.inf] * 60).changes == []
    assert judged(GradNorm, [row(n, {"ret": 1.0}) for n in range(1, 60)]).changes == []
    assert norms([60.0] * 60, settings=Settings(max_grad_norm=0.0)).changes == []


def test_a_run_that_learned_with_such_norms_is_not_drowned_by_them() -> None:
    """200 caps from the start on and next to no step, after a rise that was real: another thing lowered the return."""
    returns = [float(n) for n in range(100)] + [60.0 + 0.1 * noise for noise in NOISE[:60]]
    assert "warning" not in [severity for _, severity in norms([100.0] * 160, returns, approx_kl=1e-5).changes]
    never = [0.1 * noise for noise in NOISE[:160]]
    assert "warning" in [severity for _, severity in norms([100.0] * 160, never, approx_kl=1e-5).changes]


def test_a_policy_that_moves_bit_by_bit_is_not_drowned() -> None:
    """Steps that are next to nothing add up: its entropy or deviation is another than the first one."""
    never = [0.1 * noise for noise in NOISE[:160]]

    def said(tag: str, fall: float) -> set[str | None]:
        lines = [
            row(n, {"grad_norm": 100.0, "approx_kl": 1e-5, "ret": ret, tag: 1.0 - fall * n / 160.0})
            for n, ret in enumerate(never, start=1)
        ]
        return {severity for _, severity in judged(GradNorm, lines, SETTINGS).changes}

    for tag in ("policy/entropy_ratio", "policy/std_min_ratio"):
        assert "warning" not in said(tag, 0.3)
        assert "warning" in said(tag, 0.0)
