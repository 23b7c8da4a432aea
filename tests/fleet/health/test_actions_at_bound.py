"""`actions-at-bound`: twenty updates with more than half of the actions cut off, while the return is poor."""

from __future__ import annotations

import math
import random

from msgspec.structs import replace

from mission_tui.fleet.health import Settings
from mission_tui.fleet.health.rules.actions_at_bound import ActionsAtBound
from mission_tui.fleet.health.settings import settings_of
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from tests.fleet.health.rounds import Round, judged, row

dice = random.Random(11)
NOISE = [dice.uniform(0.0, 1.0) for _ in range(300)]
SETTINGS = Settings(total_timesteps=100 * 1024, rollout=1024)


def cut(shares: list[float], returns: list[float] | None = None, settings: Settings = SETTINGS, **more: float) -> Round:
    """Updates with these shares of actions at a bound; the return wanders unless it is given."""
    lines = [
        row(n, {"policy/actions_at_bound": share, "ret": ret, **{f"policy/{tag}": v for tag, v in more.items()}})
        for n, (share, ret) in enumerate(zip(shares, returns or NOISE, strict=False), start=1)
    ]
    return judged(ActionsAtBound, lines, settings)


def test_half_of_the_actions_for_twenty_updates_is_a_warning() -> None:
    """Not for nineteen, not at exactly half, and it is over after twenty updates below 0.4."""
    assert cut([0.1] * 40 + [0.6] * 20).changes == [(60, "warning")]
    assert cut([0.1] * 40 + [0.6] * 19 + [0.1] * 20).changes == []
    assert cut([0.5] * 100).changes == []
    assert cut([0.6] * 40 + [0.45] * 40).changes == [(30, "warning")]
    assert cut([0.6] * 40 + [0.3] * 40).changes == [(30, "warning"), (60, None)]


def test_a_run_that_does_well_may_go_from_bound_to_bound() -> None:
    """Bang-bang control is a solution: silent while the return rises and while it rests at its best."""
    rising = [float(n) for n in range(100)]
    assert cut([0.7] * 100, rising).changes == []
    assert cut([0.7] * 200, rising + [99.0] * 100).changes == []


def test_wide_actions_are_told_from_a_mean_beyond_the_bound() -> None:
    """By the deviation, and the advice follows: pay less, or step back; no setting moves a mean that lies beyond."""
    env, run = EnvSpec(id="X", n_envs=1), RunSpec(total_timesteps=100 * 2048)
    paid = Spec(preset="p", env=env, run=run, ppo=PpoSpec(n_steps=2048, ent_coef=0.1))
    free = Spec(preset="p", env=env, run=run, ppo=PpoSpec(n_steps=2048))
    for spec, ratio, cause, assignments in (
        (paid, 3.0, "is 3, 3 x its start, and ppo.ent_coef = 0.1 rewards a wider policy", ("ppo.ent_coef=0.01",)),
        (free, 3.0, "is 3, 3 x its start", ("ppo.learning_rate=0.00015",)),
        (free, 0.4, "so it is the policy's mean that lies beyond", ()),
    ):
        words = cut([0.6] * 60, settings=settings_of(spec), std=ratio, std_max_ratio=ratio).words[0]
        assert cause in words.cause
        assert words.advice_set == assignments
        assert not assignments or change(spec, words.advice_set) != spec
    assert words.advice.endswith("no setting is known to cure this")
    assert words.sentence.startswith("60% of actions lie at a bound, for 20 updates, and the return is neither rising")
    assert (words.signal, words.threshold, words.window) == ("policy/actions_at_bound", 0.5, 20)


def test_a_spread_far_beyond_the_range_is_told_from_the_first_update_on() -> None:
    """Before anything is learned it is no mean that lies there; however well the run does, that is worth a word. A
    resume goes on with the deviation that was learned, whatever `log_std_init` says.
    """
    rising = [float(n) for n in range(100)]
    wide = cut([0.95] * 100, rising, std=20.0, std_max_ratio=1.02)
    assert wide.changes == [(20, "info")]
    assert wide.words[0].sentence == "95% of actions lie at a bound, for 20 updates, from the first one on"
    assert "they lay at a bound before anything was learned" in wide.words[0].cause
    assert wide.words[0].advice_set == ()
    assert "a smaller standard deviation, in a new training" in wide.words[0].advice
    poor = cut([0.95] * 100, std=20.0, std_max_ratio=1.02)
    assert poor.changes == [(20, "info"), (30, "warning")]
    ours = cut([0.95] * 100, settings=replace(SETTINGS, ours=True), std=20.0, std_max_ratio=1.02)
    assert ours.words[1].advice.endswith("(`mission-tui clone RUN --set ppo.policy_kwargs.log_std_init=-1`)")
    assert cut([0.3] * 5 + [0.95] * 95, rising, std=1.0, std_max_ratio=1.02).changes == []


def test_absent_and_absurd_shares_say_nothing() -> None:
    """Discrete actions have no bound."""
    assert cut([math.nan, math.inf] * 50).changes == []
    assert judged(ActionsAtBound, [row(n, {"ret": 1.0}) for n in range(1, 60)]).changes == []
