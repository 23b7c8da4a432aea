"""`policy-std`: the deviation of Gaussian actions as a multiple of its start, whatever the log says of it."""

from __future__ import annotations

import math

import pytest

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.health import Settings
from mission_tui.fleet.health.rule import Explanation
from mission_tui.fleet.health.rules.policy_std import UNIT_ENTROPY, PolicyStd
from mission_tui.fleet.health.settings import settings_of
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from mission_tui.fleet.specs.thresholds import Limits, PolicyStdLimits
from tests.fleet.health.one_rule import ABSENT, TRACES
from tests.fleet.health.rounds import Round, judged, judged_outside, labels, row


def spread(*ratios: float, settings: Settings | None = None, most: float | None = None) -> Round:
    """Updates with these smallest ratios; the largest is the same unless it is given."""
    lines = [
        row(n, {"policy/std_min_ratio": ratio, "policy/std_max_ratio": ratio if most is None else most})
        for n, ratio in enumerate(ratios, start=1)
    ]
    return judged(PolicyStd, lines, settings)


def test_ordinary_spreads_are_no_finding() -> None:
    """From 0.11 to 1.9 of the start, and single updates far beyond."""
    assert spread(*[0.11, 1.0, 1.9] * 10, *[0.05, 0.05, 0.05, 0.05, 0.5] * 10).changes == []


@pytest.mark.parametrize(
    ("ratio", "severity"), [(0.09, "warning"), (0.019, "critical"), (2.1, "warning"), (5.1, "critical")]
)
def test_five_updates_beyond_a_level(ratio: float, severity: Severity) -> None:
    """Narrow and wide, with the level that was passed on the curve that shows it."""
    seen = spread(1.0, *[ratio] * 5)
    assert seen.changes == [(6, severity)]
    words = seen.words[0]
    assert words.signal == ("policy/std_max_ratio" if ratio > 1.0 else "policy/std_min_ratio")
    assert words.threshold == {0.09: 0.1, 0.019: 0.02, 2.1: 2.0, 5.1: 5.0}[ratio]
    assert (
        f"is {ratio:.2g} x its start, {'more' if ratio > 1.0 else 'less'} than {words.threshold:g} x" in words.sentence
    )


def test_the_worst_component_counts() -> None:
    """One component that is too wide among narrow ones, and a narrow one beside a wide one."""
    assert [severity for _, severity in spread(*[0.5] * 6, most=6.0).changes] == ["critical"]
    assert spread(*[0.01] * 6, most=3.0).words[0].signal == "policy/std_min_ratio"


def test_a_level_is_left_a_quarter_beyond_it() -> None:
    """0.12 is still too near to 0.1; five updates above 0.125 clear it."""
    assert spread(*[0.09] * 5, *[0.12] * 20).changes == [(5, "warning")]
    assert spread(*[0.09] * 5, *[0.13] * 5).changes == [(5, "warning"), (10, None)]
    assert spread(*[0.01] * 5, *[0.05] * 5).changes == [(5, "critical"), (10, "warning")]


def test_a_solved_task_may_have_a_narrow_policy_but_not_a_wide_one() -> None:
    """Known solved takes back the narrow side, and makes the wide one information, as a return near its best does."""
    solved = Settings(reward_threshold=10.0)
    lines = [row(n, {"policy/std_min_ratio": 0.01, "ret": 20.0}) for n in range(1, 20)]
    assert judged(PolicyStd, lines, solved).changes == []
    assert judged(PolicyStd, lines).changes != []
    wide = [row(n, {"policy/std_min_ratio": 6.0, "policy/std_max_ratio": 6.0, "ret": 20.0}) for n in range(1, 20)]
    assert judged(PolicyStd, wide, solved).changes == [(5, "info")]
    assert judged(PolicyStd, wide).changes == [(5, "critical")]


def test_wide_actions_are_trouble_once_the_return_falls() -> None:
    """While it rises, or stays near its best, they are cut off at their bounds and do as well."""

    def widened(returns: list[float]) -> list[tuple[int, Severity | None]]:
        lines = [
            row(n, {"policy/std_min_ratio": 1.0, "policy/std_max_ratio": 3.0 if n > 40 else 1.0, "ret": ret})
            for n, ret in enumerate(returns, start=1)
        ]
        return judged(PolicyStd, lines).changes

    rising = [float(n) for n in range(60)]
    assert widened(rising) == [(45, "info")]
    assert widened(rising + [60.0 - 2.0 * n for n in range(25)])[:2] == [(45, "info"), (67, "warning")]


@pytest.mark.parametrize("told", ["settings", "losses", "losses, later"])
def test_a_rise_under_a_bonus_from_the_start_excuses_no_wide_actions(told: str) -> None:
    """No return has shown what could have been earned without such a bonus; of one that came later some have."""
    paid = {"policy_gradient_loss": -0.01, "value_loss": 0.01, "entropy_loss": -2.0, "loss": -2.01}
    unpaid = paid | {"loss": -0.01}

    def widened(ent_coef: float | None) -> Round:
        lines = [
            row(n, (unpaid if told != "losses" and n < 40 else paid) | {"std": 3.0 if n > 60 else 1.0, "ret": 1.0 * n})
            for n in range(1, 80)
        ]
        return judged(PolicyStd, lines, Settings(ent_coef=ent_coef))

    seen = widened(0.5 if told == "settings" else None)
    assert seen.changes == [(65, "info" if told == "losses, later" else "warning")]
    assert widened(0.0).changes == [(65, "info")]


def test_a_policy_may_narrow_while_it_learns() -> None:
    """While the return rises by updates that move the policy; not where they only make its actions smaller."""

    def narrowed(kl: float) -> list[tuple[int, Severity | None]]:
        lines = [
            row(n, {"policy/std_min_ratio": 0.05 if n > 40 else 1.0, "approx_kl": kl, "ret": float(n)})
            for n in range(1, 60)
        ]
        return judged(PolicyStd, lines, Settings(clip_range=0.2)).changes

    assert narrowed(0.01) == [(45, "info")]
    assert narrowed(1e-4) == [(45, "warning")]


def test_a_policy_may_narrow_near_its_best() -> None:
    """Where ever more is asked, precision grows and the return does not; once it falls, the spread is missed."""
    returns = [min(n, 40) + 4.0 * (n % 2) for n in range(1, 80)] + [39.0 - n for n in range(30)]
    lines = [
        row(n, {"policy/std_min_ratio": 0.08 if n > 60 else 1.0, "approx_kl": 0.01, "ret": ret})
        for n, ret in enumerate(returns, start=1)
    ]
    changes = judged(PolicyStd, lines, Settings(clip_range=0.2)).changes
    assert changes[0] == (65, "info")
    assert changes[1][1] == "warning"
    assert changes[1][0] > 79


def test_a_narrow_component_is_told_before_a_wide_one_that_does_no_harm() -> None:
    """The worse of the two sides is what is said."""
    lines = [
        row(n, {"policy/std_min_ratio": 0.05 if n > 40 else 1.0, "policy/std_max_ratio": 3.0, "ret": float(n)})
        for n in range(1, 60)
    ]
    seen = judged(PolicyStd, lines)
    assert (seen.changes[-1], seen.words[-1].signal) == ((45, "warning"), "policy/std_min_ratio")


def test_sb3s_own_deviation_is_relative_to_its_first() -> None:
    """A tuned start of 0.135 is no collapse; under gSDE the number means something else."""
    lines = [row(n, {"std": 0.135 if n < 5 else 0.01}) for n in range(1, 20)]
    seen = judged(PolicyStd, lines)
    assert seen.changes == [(9, "warning")]
    assert (seen.words[0].signal, round(seen.words[0].threshold or 0.0, 4)) == ("train/std", 0.0135)
    assert judged(PolicyStd, lines, Settings(use_sde=True)).changes == []


def test_an_entropy_below_zero_gives_the_deviation_away() -> None:
    """Four components from 1 to 0.05: it fell by 4 x log 20. Above zero, or from another start, it may be discrete."""

    def entropies(start: float, fall: float) -> Round:
        return judged(PolicyStd, [row(n, {"entropy_loss": -start + (fall if n > 5 else 0.0)}) for n in range(1, 30)])

    seen = entropies(4 * UNIT_ENTROPY, -4 * math.log(0.05))
    assert seen.changes == [(10, "warning")]
    assert "is 0.05 x its start" in seen.words[0].sentence
    assert seen.words[0].signal == "train/entropy_loss"
    assert seen.words[0].threshold == pytest.approx(-(4 * UNIT_ENTROPY + 4 * math.log(0.1)))
    assert entropies(math.log(4), 1.2).changes == []
    assert entropies(2.1, 6.0).changes == []
    assert entropies(4 * UNIT_ENTROPY, 4 * math.log(0.1)).changes == []


def test_causes_and_advice_know_the_bonus_and_the_pressure() -> None:
    """Wide actions that are paid for are paid less; narrow ones more, unless the update is worked too hard."""
    env, run = EnvSpec(id="X", n_envs=1), RunSpec(total_timesteps=10**6)
    calm = PpoSpec(n_steps=2048, batch_size=2048, n_epochs=4)
    paid = Spec(preset="p", env=env, run=run, ppo=PpoSpec(n_steps=2048, batch_size=2048, n_epochs=4, ent_coef=0.3))
    free = Spec(preset="p", env=env, run=run, ppo=calm)
    hard = Spec(preset="p", env=env, run=run, ppo=PpoSpec(n_steps=2048, batch_size=64, n_epochs=10))
    for spec, ratio, cause, assignment in (
        (paid, 6.0, "ppo.ent_coef = 0.3 rewards wide actions", "ppo.ent_coef=0.03"),
        (free, 6.0, "4 gradient steps x 0.0003", "ppo.learning_rate=0.00015"),
        (free, 0.01, "there is no entropy bonus", "ppo.ent_coef=0.001"),
        (paid, 0.01, "ppo.ent_coef = 0.3 does not keep actions wide", "ppo.ent_coef=0.9"),
        (hard, 0.01, "24 x the reference", "ppo.learning_rate=0.00015"),
    ):
        words = spread(*[ratio] * 5, settings=settings_of(spec)).words[0]
        assert cause in words.cause
        assert words.advice_set == (assignment,)
        assert change(spec, words.advice_set) != spec


def test_a_bonus_that_only_the_losses_tell_is_the_cause() -> None:
    """SB3's losses, of a log without settings: wide actions are what is paid for, narrow ones are not."""
    paid = {"policy_gradient_loss": -0.01, "value_loss": 0.01, "entropy_loss": -2.0, "loss": -2.01}

    def of(std: float) -> Explanation:
        return judged(PolicyStd, [row(n, paid | {"std": 1.0 if n < 20 else std}) for n in range(1, 30)]).words[0]

    assert of(3.0).cause.startswith("by train/loss ppo.ent_coef is at least 1, which rewards wide actions; ")
    assert (of(3.0).advice, of(3.0).advice_set) == ("lower the entropy bonus", ("ppo.ent_coef=0.01",))
    assert "ent_coef" not in of(0.05).cause


def test_a_rate_that_nobody_learns_with_is_lowered_to_a_usual_one() -> None:
    """Half of 0.03 is as far from any that works, and other rules say the same of it."""
    lines = [row(n, {"train/std": 1.0 if n == 1 else 3.0, "learning_rate": 0.03}) for n in range(1, 10)]
    assert judged(PolicyStd, lines).words[0].advice_set == ("ppo.learning_rate=0.00025",)


def test_what_is_no_number_says_nothing() -> None:
    """NaN belongs to the rule `nan`, and a discrete run has no deviation."""
    assert spread(*[math.nan, math.inf] * 20).changes == []
    assert judged(PolicyStd, [row(n, {"std": math.nan, "entropy_loss": math.inf}) for n in range(1, 30)]).changes == []
    assert judged(PolicyStd, [row(n, {"entropy_loss": -1e308 * n}) for n in range(1, 30)]).changes == []


def test_limits_are_the_runs_own() -> None:
    """Two updates instead of five."""
    lines = [row(n, {"policy/std_min_ratio": 0.09}) for n in range(1, 5)]
    assert judged(PolicyStd, lines, None, Limits(policy_std=PolicyStdLimits(updates=2))).changes == [(2, "warning")]


@pytest.mark.skipif(not TRACES.is_dir(), reason=ABSENT)
def test_outside_runs_that_collapsed_are_found_and_no_other() -> None:
    """The five that learned to do nothing, the one that learned nothing, and no other."""
    found = {name for name in labels() if judged_outside(PolicyStd, name).changes}
    assert found == {name for name, label in labels().items() if label in ("fail_local_optimum", "fail_no_learning")}
