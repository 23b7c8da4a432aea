"""`value-loss`: ten times the usual is information, once; with a falling return it is a warning."""

from __future__ import annotations

import math

import pytest

from mission_tui.fleet.health import Settings
from mission_tui.fleet.health.rules.value_loss import ValueLoss
from mission_tui.fleet.health.settings import settings_of
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import EnvSpec, RunSpec, Spec
from tests.fleet.health.one_rule import ABSENT, TRACES, bursts, incidents_on
from tests.fleet.health.rounds import Round, judged, row

SETTINGS = Settings(total_timesteps=200 * 1024, rollout=1024)
LEARNING = [float(n) for n in range(60)]


def lost(losses: list[float], returns: list[float], settings: Settings = SETTINGS) -> Round:
    """Updates with these value losses and mean returns."""
    lines = zip(losses, returns, strict=True)
    return judged(
        ValueLoss, [row(n, {"value_loss": loss, "ret": ret}) for n, (loss, ret) in enumerate(lines, start=1)], settings
    )


def test_five_updates_above_ten_times_the_median_are_information() -> None:
    """A first win does that. Four are nothing, nor is nine times."""
    seen = lost([1.0] * 60 + [11.0] * 20, LEARNING + [60.0 + n for n in range(20)])
    assert seen.changes == [(65, "info")]
    assert seen.words[0].sentence.startswith(
        "value loss is 11 x its median of 1, for 5 updates; the return does not fall"
    )
    assert seen.words[0].threshold == 10.0
    assert seen.words[0].advice_set == ()
    assert lost([1.0] * 60 + [11.0] * 4 + [1.0] * 20, LEARNING + [60.0] * 24).changes == []
    assert lost([1.0] * 60 + [9.0] * 20, LEARNING + [60.0] * 20).changes == []


def test_with_a_falling_return_it_is_a_warning() -> None:
    """A quarter of the range is a fall; the warning stays until the loss is back below five times the median."""
    falling = LEARNING + [59.0 - 2.0 * n for n in range(25)]
    seen = lost([1.0] * 60 + [20.0] * 25, falling)
    assert [severity for _, severity in seen.changes] == ["info", "warning"]
    assert seen.words[1].sentence.endswith("and the return falls")
    back = lost([1.0] * 60 + [20.0] * 25 + [6.0] * 10 + [1.0] * 5, falling + [9.0] * 15)
    assert back.changes[2:] == [(100, None)]


def test_a_dip_and_a_return_that_recovers_are_no_fall() -> None:
    """Less than a quarter of the range, or already on the way up when the loss jumps."""
    high = [1.0] * 60 + [20.0] * 20
    assert lost(high, LEARNING + [59.0 - 0.5 * n for n in range(20)]).changes == [(65, "info")]
    trough = LEARNING[:30] + [29.0 - 3.0 * n for n in range(8)] + [8.0 + 0.5 * n for n in range(42)]
    assert lost(high, trough).changes == [(65, "info")]


def test_a_loss_that_is_next_to_nothing_may_multiply() -> None:
    """Below a hundredth of the first losses values are right, whatever the return does; above it they are not."""
    falling = LEARNING + [59.0 - 2.0 * n for n in range(25)]
    learned = [1.0] * 5 + [1e-8] * 55
    assert lost(learned + [1e-6] * 25, falling).changes == []
    assert [severity for _, severity in lost(learned + [0.02] * 25, falling).changes] == ["info", "warning"]
    risen = [*falling, *[float(n) for n in range(9, 24)]]
    assert lost(learned + [0.02] * 25 + [0.004] * 15, risen).changes[-1] == (90, None)


def test_a_loss_that_is_gone_at_once_is_a_warning_though_the_return_rises() -> None:
    """A tenth of the least of sixteen, in one update and for five: rewards are smaller. What sinks, and what falls from
    next to nothing as that of a solved task does, is learned; so is one that comes back.
    """
    before = [900.0 + 100.0 * (n % 4) for n in range(24)]
    seen = lost([*before, *[80.0] * 20], [*LEARNING[:24], *[500.0] * 20])
    assert seen.changes == [(29, "warning")]
    assert seen.words[0].sentence == (
        "value loss fell from 900 or more to less than 90 from one update to the next: no learning does that"
    )
    assert seen.words[0].advice_set == ()
    assert seen.words[0].threshold == 90.0
    assert lost([*before, *[100.0] * 20], LEARNING[:44]).changes == []
    assert lost([*before, *[80.0] * 4, *before], LEARNING[:52]).changes == []
    assert lost([0.9**n for n in range(60)], LEARNING).changes == []
    assert lost([*before[:5], *[20.0] * 20, *[1.0] * 20], LEARNING[:45]).changes == []
    assert lost([*before, *[80.0] * 20, *[500.0] * 5], LEARNING[:49]).changes == [(29, "warning"), (45, None)]


def contradicted(explained: list[float], losses: list[float], returns: list[float], *, first: float = 2.0) -> Round:
    """Updates with these explained variances, value losses and mean returns, after forty that have nothing unusual."""
    before = [(0.3 + 0.1 * (n % 3), 1.0 + n % 2, -40.0 + n + n % 2) for n in range(40)]
    lines = [(0.0, first, -40.0), *before[1:], *zip(explained, losses, returns, strict=True)]
    named = ({"explained_variance": ev, "value_loss": vl, "ret": ret} for ev, vl, ret in lines)
    return judged(ValueLoss, [row(n, tags) for n, tags in enumerate(named, start=1)], SETTINGS)


def test_values_that_are_contradicted_at_once_are_a_warning_whichever_way_the_return_goes() -> None:
    """Worse than a constant after none of sixteen, with two losses above all of those, and the mean return moves by far
    more than its noise, be it later. Each of them alone is nothing, nor are values that explain less and less.
    """
    worse, high = [-0.7, *[0.1] * 23], [9.0, 7.0, 2.0, *[2.0] * 21]
    for sign in (1.0, -1.0):
        seen = contradicted(worse, high, [sign * 5.0, *[sign * 30.0] * 23])
        assert seen.changes[:2] == [(42, "warning"), (58, None)]
    assert seen.words[0].sentence == (
        "values were contradicted in update 41: explained variance fell at once to -0.7, after 0.3 or more in 15 of 16 "
        "updates, value loss rose at once to 6 x its median of 16 updates, and the return went from 0 to -30"
    )
    assert seen.words[0].advice_set == ()
    assert contradicted(worse, high, [*[1.0] * 4, *[30.0] * 20]).changes[:1] == [(45, "warning")]
    assert contradicted(worse, high, [*[1.0] * 6, *[30.0] * 18]).changes == []
    assert contradicted(worse, [9.0, *[1.0] * 23], [30.0] * 24).changes == []
    assert contradicted([0.1] * 24, high, [30.0] * 24).changes == []
    fading = [0.4 - 0.05 * n for n in range(24)]
    assert contradicted(fading, [1.0 + 0.5 * n for n in range(24)], [30.0] * 24).changes == []


def test_a_return_that_climbs_on_as_before_has_not_jumped() -> None:
    """However steady its climb was: where nearly each step is the same, any would be many deviations."""
    climb = [n + 0.02 * (n % 2) for n in range(64)]
    rows = [
        {"explained_variance": 0.9 if n != 40 else -0.2, "value_loss": 9.0 if n in (40, 41) else 1.0, "ret": value}
        for n, value in enumerate(climb)
    ]
    assert judged(ValueLoss, [row(n, tags) for n, tags in enumerate(rows, start=1)], SETTINGS).changes == []


def test_one_sign_that_lasts_is_enough_where_the_return_falls_at_once() -> None:
    """Explained variance for two updates or the loss for three; not where the return rises or falls by little, nor from
    losses as those of a solved task.
    """
    falls, low, high = [-5.0, -20.0, -30.0, *[-40.0] * 21], [-0.7] * 24, [9.0, 9.0, 9.0, *[2.0] * 21]
    assert contradicted(low, [1.0] * 24, falls).changes[:1] == [(42, "warning")]
    seen = contradicted([0.4] * 24, high, falls)
    assert seen.changes[:1] == [(43, "warning")]
    assert seen.words[0].sentence == (
        "values were surprised in update 41: value loss rose at once to 6 x its median of 16 updates, and the return "
        "went from 0 to -30"
    )
    assert (seen.words[0].signal, seen.words[0].threshold) == ("train/value_loss", 3.0)
    rises = [-level for level in falls]
    assert contradicted(low, [1.0] * 24, rises).changes == contradicted([0.4] * 24, high, rises).changes == []
    assert contradicted([0.4] * 24, high, [-4.0] * 24).changes == []
    assert contradicted([0.4] * 24, [9.0, 9.0, *[2.0] * 22], falls).changes == []
    assert contradicted([0.4] * 24, high, falls, first=3000.0).changes == []


def told(levels: list[float], after: list[float], *, counted: bool = True) -> Round:
    """Bursts of episodes every 20 updates that return `levels`, and losses of 1 or 2 up to those `after` update 64."""
    losses = [1.0 + (n % 2) for n in range(64)]
    return judged(ValueLoss, bursts(levels, [*losses, *after], counted=counted), SETTINGS)


@pytest.mark.parametrize("counted", [True, False])
def test_where_no_episode_ends_a_surprise_is_a_warning(counted: bool) -> None:
    """Five updates far above all of the burst before; the next burst says whether anything was lost. Single losses are
    high there anyway, and where nothing had been gained it may be the first success.
    """
    high = [20.0] * 40
    lasting = told([0.0, 100.0, 110.0, 20.0], high, counted=counted)
    assert lasting.changes == [(69, "warning")]
    assert lasting.words[0].sentence == (
        "value loss is 10 x the 2 that is usual between bursts of episodes, and no episode has ended in 9 updates that "
        "would show what the return does"
    )
    assert lasting.words[0].advice.endswith("no setting is known to cure this")
    assert lasting.words[0].advice_set == ()
    assert told([0.0, 100.0, 110.0, 120.0], high, counted=counted).changes[:2] == [(69, "warning"), (80, None)]
    assert told([0.0, 0.0, 0.0, 20.0], high, counted=counted).changes[:1] in ([], [(85, "info")])
    assert told([0.0, 100.0, 110.0, 112.0], [20.0, 20.0, 1.0, 1.0] * 10, counted=counted).changes == []


def test_information_comes_once_an_attempt() -> None:
    """The second jump is no news; a warning still is."""
    burst = [1.0] * 60 + [11.0] * 6 + [1.0] * 10
    again = lost([*burst, *[11.0] * 6], [float(n) for n in range(82)])
    assert again.changes == [(65, "info"), (71, None)]


def test_high_losses_do_not_become_the_usual() -> None:
    """The median stands still while the loss is high, so a long jump does not explain itself away."""
    seen = lost([1.0] * 60 + [11.0] * 500, [float(n) for n in range(560)])
    assert seen.changes == [(65, "info")]


def test_early_losses_are_not_judged() -> None:
    """Before the warm-up of 30 updates everything is news."""
    assert lost([1.0] * 10 + [100.0] * 19, LEARNING[:29]).changes == []


def test_advice_halves_the_rate_and_normalises_rewards_in_a_new_training_alone() -> None:
    """Whichever this run has not done; of those that went on with normalised rewards as many did worse as better."""
    falling, losses = LEARNING + [59.0 - 2.0 * n for n in range(25)], [1.0] * 60 + [900.0] * 25
    for normalize, advice, assignments in (
        (
            False,
            "look for what changed in the environment or its rewards; if nothing did, normalise rewards, in a new tr",
            (),
        ),
        (True, "halve the learning rate", ("ppo.learning_rate=0.00015",)),
    ):
        env = EnvSpec(id="X", n_envs=1, normalize=normalize)
        spec = Spec(preset="p", env=env, run=RunSpec(total_timesteps=200 * 2048))
        words = lost(losses, falling, settings_of(spec)).words[-1]
        assert "values miss returns by about 30 (root of the value loss), and rewards are" in words.cause
        assert words.advice.startswith(advice)
        assert words.advice_set == assignments
        assert not assignments or change(spec, words.advice_set) != spec


def test_of_small_steps_the_rate_is_no_advice() -> None:
    """As where the environment ends each episode at once: what returns are is another thing than how far steps go."""
    falling = LEARNING + [59.0 - 2.0 * n for n in range(25)]
    tags = [
        {"value_loss": loss, "ret": ret, "approx_kl": 0.004, "learning_rate": 3e-4}
        for loss, ret in zip([1.0] * 60 + [900.0] * 25, falling, strict=True)
    ]
    words = judged(ValueLoss, [row(n, it) for n, it in enumerate(tags, start=1)], SETTINGS).words[-1]
    assert words.advice.startswith("look for what changed in the environment or its rewards")
    assert words.advice_set == ()


def test_absurd_losses_are_survived() -> None:
    """NaN belongs to the rule `nan`, a negative loss to nobody, and zero has no multiple."""
    assert lost([math.nan, math.inf, -1.0] * 20, LEARNING).changes == []
    assert lost([-1e308] * 60 + [1.0] * 10, LEARNING + [60.0] * 10).changes == []
    seen = lost([0.0] * 60 + [1.0] * 10, [float(n) for n in range(70)])
    assert seen.changes == [(65, "info")]
    assert "inf x its median of 0" in seen.words[0].sentence


@pytest.mark.skipif(not TRACES.is_dir(), reason=ABSENT)
def test_rare_on_healthy_runs_of_others() -> None:
    """Of 40 runs nine are told for information, and none is warned."""
    severities = [severity for _, (severity, _, _), _ in incidents_on(ValueLoss, "healthy")]
    assert severities.count("critical") == 0
    assert severities.count("warning") == 0
    assert severities.count("info") <= 9
