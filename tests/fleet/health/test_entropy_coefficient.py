"""`ent-coef`: SAC's entropy coefficient far above where it began, and one of PPO that keeps a policy random."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.health import HealthJudge, Settings
from mission_tui.fleet.health.rule import Row
from mission_tui.fleet.health.rules.entropy_coefficient import EntropyCoefficient
from mission_tui.fleet.specs.thresholds import Limits
from tests.fleet.health.one_rule import watch
from tests.fleet.recorded import update

UPDATES, HMAX = 80, 1.386
OURS = Settings(ours=True, total_timesteps=UPDATES * 1024, rollout=1024, vf_coef=0.5, ent_coef=1.0)
THEIRS = replace(OURS, ours=False, vf_coef=None, ent_coef=None)


def coefficients(values: list[float], *, critic: bool = True) -> list[Row]:
    """A row for each coefficient."""
    losses = {"train/critic_loss": 1.0} if critic else {}
    return [Row(1, n, 200 * n, {"train/ent_coef": value} | losses) for n, value in enumerate(values, 1)]


def test_ten_times_the_start_is_a_warning_and_a_hundred_times_critical() -> None:
    """From the fifth row on; back below five times it is over. A tenfold rise from a low is none: the start counts."""
    seen = watch(EntropyCoefficient, coefficients([1.0] * 5 + [11.0] * 10 + [200.0] * 10 + [2.0] * 10))
    assert seen.incidents == [("critical", 10, 29)]
    assert seen.words[0].sentence.startswith("entropy coefficient is 11, 11 x its start of 1")
    assert watch(EntropyCoefficient, coefficients([1.0, 0.1, 0.01] + [0.9] * 20)).incidents == []
    assert watch(EntropyCoefficient, coefficients([1.0] + [11.0] * 4 + [1.0] * 9)).incidents == []


def test_only_a_learned_coefficient_counts() -> None:
    """A program of PPO may log its own setting under this tag, and has no critic."""
    assert watch(EntropyCoefficient, coefficients([0.01] + [1.0] * 30, critic=False)).incidents == []


def training(shares: Sequence[float], returns: Sequence[float], *, coef: float = 1.0) -> list[Row]:
    """Rows as SB3 writes them, for entropies as shares of the maximum and mean returns."""
    dice = random.Random(3)
    found = []
    for number, (share, ret) in enumerate(zip(shares, returns, strict=True), start=1):
        policy, value = dice.gauss(-0.005, 0.003), 0.2 * dice.lognormvariate(0.0, 0.2)
        entropy = HMAX * share
        losses = {"policy_gradient_loss": policy, "value_loss": value, "entropy_loss": -entropy, "approx_kl": 0.004}
        losses["loss"] = policy + 0.5 * value - coef * entropy
        tags = {f"train/{name}": number for name, number in losses.items()}
        tags |= {
            "rollout/ep_rew_mean": ret + dice.gauss(0.0, 0.3),
            "rollout/ep_len_mean": 20.0,
            "train/clip_range": 0.2,
        }
        found.append(Row(1, number, number * 1024, tags))
    return found


FLAT = [3.0] * UPDATES
RANDOM = [1.0] + [0.97] * (UPDATES - 1)


def findings(rows: list[Row], settings: Settings) -> dict[str, Finding]:
    """What the whole judge says of `rows`."""
    judge = HealthJudge(settings, Limits())
    for row in rows:
        judge.update(update(row.update, tags=dict(row.metrics)))
    return {finding.rule: finding for finding in judge.findings}


def test_a_bonus_that_keeps_the_policy_random_is_a_warning() -> None:
    """After twelve updates where it is set, else once trends may be judged; in words that name it: an exact value for
    our own, the script's name for another's.
    """
    said = findings(training(RANDOM, FLAT), OURS)["ent-coef"]
    assert (said.severity, said.first_update) == ("warning", 12)
    assert said.sentence == (
        "after 12 updates the policy chooses almost at random, with an entropy at 97% of the most in this log, and the "
        "return does not rise"
    )
    assert said.cause == "ppo.ent_coef = 1: acting at random pays more than the task does"
    assert said.advice_set == ("ppo.ent_coef=0.01",)
    other = findings(training(RANDOM, FLAT), THEIRS)["ent-coef"]
    assert (other.severity, other.first_update) == ("warning", 30)
    assert other.cause.startswith("by train/loss ent_coef is at least 0.9")
    assert other.advice == "lower the entropy bonus to a usual one (in your script: ent_coef 0.01)"
    assert other.advice_set == ()


def test_a_bonus_that_is_set_waits_for_a_return_that_seems_to_rise() -> None:
    """Be it by chance: until trends may be judged nothing is said of it, nor of one that is found late and rises."""
    seems = [2.3, 1.1, 1.9, 2.7, 3.6, 4.8, 3.1, 5.1, 5.0, 6.3, 6.1, 7.9, 7.1, 8.2, 9.0, 8.8, 9.9, 10.6, 10.1, 11.4]
    assert watch(EntropyCoefficient, training(RANDOM[:20], seems), OURS).incidents == []
    assert watch(EntropyCoefficient, training(RANDOM[:20], FLAT[:20]), OURS).incidents == [("warning", 12, 20)]


def test_a_bonus_that_the_settings_do_not_have_is_told_by_the_losses() -> None:
    """Code of a run's own may set one while it trains: then no setting cures it, and what to look for is said."""
    ours = replace(OURS, ent_coef=0.0)
    said = findings(training(RANDOM, FLAT), ours)["ent-coef"]
    assert (said.severity, said.first_update) == ("warning", 30)
    assert "and not the 0 of ppo.ent_coef" in said.cause
    assert said.advice == "look for code that sets ent_coef while it trains"
    assert said.advice_set == ()
    assert watch(EntropyCoefficient, training(RANDOM, FLAT, coef=0.01), ours).incidents == []


@pytest.mark.parametrize("coef", [0.0, 0.01, 0.05])
def test_a_usual_bonus_is_never_blamed_for_a_random_policy(coef: float) -> None:
    """Nothing was found yet: that is so with any bonus, whether the settings are known or not."""
    rows = training(RANDOM, FLAT, coef=coef)
    assert watch(EntropyCoefficient, rows, replace(OURS, ent_coef=coef)).incidents == []
    assert watch(EntropyCoefficient, rows, THEIRS).incidents == []


def test_a_large_bonus_that_the_task_outweighs_does_no_harm() -> None:
    """The policy becomes less random; or its return rises, which is information; or stands still at its best."""
    learns = [max(0.5, 1.0 - n / 40) for n in range(UPDATES)]
    assert watch(EntropyCoefficient, training(learns, FLAT), THEIRS).incidents == []
    rising = watch(EntropyCoefficient, training(RANDOM, [float(n) for n in range(UPDATES)]), THEIRS)
    assert set(rising.severities) == {None, "info"}
    assert rising.words[0].sentence.endswith("and the return still rises")
    solved = [min(200.0, 10.0 * n) for n in range(UPDATES)]
    assert set(watch(EntropyCoefficient, training(RANDOM, solved), THEIRS).severities[60:]) == {None}


def test_only_choices_are_judged_by_their_entropy() -> None:
    """Gaussian actions are widened for ever by a bonus; under gSDE `train/std` is another number."""
    gaussian = [replace(it, metrics={**it.metrics, "train/std": 1.5}) for it in training(RANDOM, FLAT)]
    assert watch(EntropyCoefficient, gaussian, OURS).incidents == []


def test_a_program_may_say_its_bonus_itself() -> None:
    """As `train/ent_coef`, which no critic's loss stands beside; it is believed before its losses are."""
    for said, found in ((1.0, ["warning"]), (0.01, [])):
        rows = [replace(it, metrics={**it.metrics, "train/ent_coef": said}) for it in training(RANDOM, FLAT)]
        assert [severity for severity, *_ in watch(EntropyCoefficient, rows, THEIRS).incidents] == found


def test_our_own_ratio_counts_before_the_entropy_of_the_log() -> None:
    """One head of several that has learned hides in the sum."""
    rows = [replace(it, metrics={**it.metrics, "policy/entropy_ratio": 0.4}) for it in training(RANDOM, FLAT)]
    assert watch(EntropyCoefficient, rows, OURS).incidents == []
    rows = [replace(it, metrics={**it.metrics, "policy/entropy_ratio": 0.95}) for it in training(RANDOM, FLAT)]
    words = watch(EntropyCoefficient, rows, OURS).words[0]
    assert "an entropy at 95% of its maximum" in words.sentence
    assert words.signal == "policy/entropy_ratio"


def test_a_log_with_such_a_bonus_is_not_told_to_explore_more() -> None:
    """`plateau` reads the losses, too."""
    low = [1.0] * 3 + [0.9] * (UPDATES - 3)
    said = findings(training(low, FLAT), THEIRS)["plateau"]
    assert said.advice.endswith("otherwise learn with a smaller entropy bonus (in your script: ent_coef 0.01)")
    assert "by train/loss ent_coef is at least 0.9" in said.cause
    assert "explore more" in findings(training(low, FLAT, coef=0.0), THEIRS)["plateau"].advice


def test_a_rise_that_chance_may_have_made_is_none() -> None:
    """As `plateau` says of it at the same time."""
    sways = [3.0 + 1.5 * math.sin(2.0 * math.pi * n / 60) for n in range(UPDATES)]
    assert "info" not in watch(EntropyCoefficient, training(RANDOM, sways), THEIRS).severities
