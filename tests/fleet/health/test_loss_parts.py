"""What the losses of a log tell of `vf_coef` and `ent_coef`: nothing but what is surely so, and what is said of it."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import pytest

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.health import HealthJudge, Settings
from mission_tui.fleet.health.usual_settings import LossParts
from mission_tui.fleet.specs.thresholds import Limits
from tests.fleet.health.rounds import row
from tests.fleet.recorded import update


def losses(
    updates: int = 40, *, vf_coef: float = 0.5, ent_coef: float = 0.0, value: float = 1.0, entropy: float = 1.4
) -> list[dict[str, float]]:
    """The losses of updates, as SB3 writes them: the sum is of the last minibatch, which is unlike the means."""
    dice = random.Random(7)
    found = []
    for _ in range(updates):
        policy, mean = dice.gauss(-0.01, 0.005), value * dice.lognormvariate(0.0, 0.3)
        last = dice.gauss(policy - 0.005, 0.02) + vf_coef * mean * dice.lognormvariate(-0.3, 0.5) - ent_coef * entropy
        found.append({"policy_gradient_loss": policy, "value_loss": mean, "entropy_loss": -entropy, "loss": last})
    return found


def told(lines: Sequence[Mapping[str, float]], settings: Settings | None = None) -> LossParts:
    """What `lines` tell."""
    parts = LossParts(settings or Settings())
    for number, line in enumerate(lines, start=1):
        parts.update(row(number, line))
    return parts


@pytest.mark.parametrize("value", [0.01, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("entropy", [0.02, 0.6, 5.0])
@pytest.mark.parametrize("ent_coef", [0.0, 0.01])
def test_usual_weights_are_told_by_no_log(value: float, entropy: float, ent_coef: float) -> None:
    """Whether values miss by little or by far, whether a policy is narrow or wide."""
    for vf_coef in (0.19, 0.5, 1.0):
        parts = told(losses(200, vf_coef=vf_coef, ent_coef=ent_coef, value=value, entropy=entropy))
        assert (parts.values_are_untaught, parts.bonus, parts.told_bonus) == (False, None, "")


def test_a_value_loss_without_weight_is_told_where_values_miss_by_far() -> None:
    """In twelve of sixteen updates; of a small loss nobody can say it."""
    assert not told(losses(11, vf_coef=0.0, value=5.0)).values_are_untaught
    assert told(losses(16, vf_coef=0.0, value=5.0)).values_are_untaught
    assert not told(losses(200, vf_coef=0.0, value=0.05)).values_are_untaught


def test_a_large_entropy_bonus_is_told_as_far_as_it_is_sure() -> None:
    """No value loss is negative: what the sum lies below the policy's loss is paid for entropy, and maybe more is."""
    assert told(losses(11, ent_coef=1.0)).bonus is None
    assert told(losses(ent_coef=1.0, value=0.01)).bonus == pytest.approx(1.0, abs=0.05)
    assert told(losses(ent_coef=1.0, value=0.01)).told_bonus.startswith("by train/loss ppo.ent_coef is at least ")
    hidden = told(losses(ent_coef=1.0, value=1.4)).bonus
    assert hidden is not None
    assert 0.1 < hidden < 1.0
    assert told(losses(ent_coef=1.0, value=30.0)).bonus is None
    # A deviation below 0.24 has an entropy below zero, and what is paid for that cannot be told from the value loss.
    assert told(losses(ent_coef=1.0, value=0.01, entropy=-1.0)).bonus is None


def test_a_bonus_that_is_gone_is_told_no_more() -> None:
    """After sixteen updates without it."""
    paid, usual = losses(20, ent_coef=1.0, value=0.01), losses(16, value=0.01)
    assert told([*paid, *usual[:15]]).bonus is not None
    assert told([*paid, *usual]).bonus is None


def test_settings_that_are_known_are_believed() -> None:
    """Whatever the losses look like."""
    odd = losses(vf_coef=0.0, ent_coef=1.0, value=5.0)
    known = told(odd, Settings(vf_coef=0.5, ent_coef=0.0))
    assert (known.values_are_untaught, known.bonus) == (False, None)
    assert told(losses(), Settings(vf_coef=0.0, ent_coef=0.0)).values_are_untaught


def test_what_is_no_number_tells_nothing() -> None:
    """NaN and infinity, and a log that has no losses."""
    broken = [dict.fromkeys(line, number) for line in losses(30) for number in (math.nan, math.inf, 1e308)]
    assert told(broken).bonus is None
    assert told([{"approx_kl": 0.01}] * 30).values_are_untaught is False


def falls(parts: Sequence[dict[str, float]]) -> list[UpdateDone]:
    """A return that rises for a hundred updates and is lost in the next hundred, with the losses of `parts`."""
    dice = random.Random(8)
    course = [float(min(n, 200 - n)) + dice.random() for n in range(200)]
    return [
        update(n, tags={f"train/{name}": number for name, number in line.items()}, ret=ret)
        for n, (ret, line) in enumerate(zip(course, parts, strict=True), start=1)
    ]


def drawdown_of(parts: list[dict[str, float]], settings: Settings | None = None) -> Finding:
    """What is said of the fall in the end."""
    judge = HealthJudge(settings or Settings(total_timesteps=200 * 1024, rollout=1024), Limits())
    for record in falls(parts):
        judge.update(record)
    return next(finding for finding in judge.findings if finding.rule == "drawdown")


def test_a_log_is_advised_what_its_losses_tell() -> None:
    """As if its settings were known, in SB3's names, for the script that set them; what is not told is not guessed."""
    bonus = drawdown_of(losses(200, ent_coef=1.0, value=0.01))
    assert bonus.cause.startswith("by train/loss ent_coef is at least 1: acting at random pays more")
    assert bonus.advice == "lower the entropy bonus to a usual one (in your script: ent_coef 0.01)"
    assert bonus.advice_set == ()
    untaught = drawdown_of(losses(200, vf_coef=0.0, value=5.0))
    assert untaught.cause.startswith("by train/loss vf_coef is about 0: the value function hardly learns")
    assert untaught.advice == "give the value loss its usual weight (in your script: vf_coef 0.5)"
    assert "train/loss" not in drawdown_of(losses(200)).cause
