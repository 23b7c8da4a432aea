"""`kl-creep`: information once updates have grown, slowly and surely, to the edge of the trust region."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from mission_tui.fleet.health import Settings
from mission_tui.fleet.health.rule import Row
from mission_tui.fleet.health.rules.kl_creep import KlCreep
from mission_tui.fleet.specs.thresholds import KlCreepLimits, Limits
from tests.fleet.health.one_rule import ABSENT, TRACES, outside
from tests.fleet.health.rounds import judged, labels, row

SETTINGS = Settings(total_timesteps=300 * 1024, rollout=1024)
"""300 updates: a warm-up of 30, then 30 that say what is usual."""


def noisy(levels: Sequence[float], seed: int = 0, std: float = 1.0) -> list[Row]:
    """Updates with these u, times noise of 30 %."""
    dice = random.Random(seed)
    return [
        row(n, {"approx_kl": 0.02 * u * math.exp(dice.gauss(0.0, 0.3)), "clip_range": 0.2, "policy/std": std})
        for n, u in enumerate(levels, start=1)
    ]


def creeping(end: float) -> list[float]:
    """u of 0.3 for 80 updates, then up to `end` at update 280."""
    return [0.3] * 80 + [0.3 * (end / 0.3) ** (n / 200) for n in range(200)] + [end] * 50


@pytest.mark.parametrize("seed", range(20))
def test_a_level_run_has_no_finding(seed: int) -> None:
    """Noise around one level never adds up, wherever the level is."""
    assert judged(KlCreep, noisy([0.3 + 0.05 * seed] * 600, seed), SETTINGS).changes == []


@pytest.mark.parametrize("seed", range(5))
def test_creep_to_the_edge_is_information_before_the_edge_is_left(seed: int) -> None:
    """From 0.3 to 1.3 in 200 updates: found once, between the u of 1 and the end."""
    changes = judged(KlCreep, noisy(creeping(1.3), seed), SETTINGS).changes
    assert [severity for _, severity in changes] == ["info"]
    assert 200 < changes[0][0] < 275


def test_creep_within_the_trust_region_is_nothing() -> None:
    """Up to u = 0.7 the sum is far over its limit, and the updates are still ordinary."""
    assert judged(KlCreep, noisy(creeping(0.7)), SETTINGS).changes == []


def test_a_level_beyond_the_edge_that_was_always_there_has_not_crept() -> None:
    """A run whose usual u is 1.3 has it from the start."""
    assert judged(KlCreep, noisy([1.3] * 400), SETTINGS).changes == []


def test_a_jump_is_no_creep() -> None:
    """From 0.3 to 30 at once is `kl-persistent`'s, and what comes after the jump has not crept either."""
    assert judged(KlCreep, noisy([0.3] * 100 + [30.0] * 40 + [1.2] * 40), SETTINGS).changes == []


def test_single_spikes_are_no_creep() -> None:
    """Every twentieth update at three hundred times the usual, just below and at the edge of the trust region."""
    for level in (0.9, 1.0):
        assert judged(KlCreep, noisy(([level] * 19 + [300.0]) * 20), SETTINGS).changes == []


def test_creep_after_a_jump_has_passed_is_found() -> None:
    """Eighty updates at the usual level settle what the jump was, however long; the next creep counts again."""
    changes = judged(KlCreep, noisy([0.3] * 100 + [30.0] * 200 + creeping(1.3)), SETTINGS).changes
    assert [severity for _, severity in changes] == ["info"]


def test_it_hands_over_to_persistent_kl() -> None:
    """Creep that goes on until the trust region is left clears there."""
    changes = judged(KlCreep, noisy(creeping(5.0)), SETTINGS).changes
    assert [severity for _, severity in changes] == ["info", None]


def test_it_clears_when_the_run_calms_down() -> None:
    """Back at the usual level the sum falls to 0 and the finding is over."""
    changes = judged(KlCreep, noisy([*creeping(1.5), *[0.3] * 60]), SETTINGS).changes
    assert [severity for _, severity in changes] == ["info", None]
    assert 330 < changes[1][0] < 360


def test_the_sentence_compares_with_the_run_itself() -> None:
    """Both medians, and where the usual one was taken."""
    words = judged(KlCreep, noisy(creeping(1.5)), SETTINGS).words[0]
    assert words.sentence.startswith("KL creeps up: 1.1 x the safe KL at the median of 20 updates; ")
    assert words.sentence.endswith("it was 0.31 x around update 59")
    assert words.threshold == pytest.approx(0.02)
    assert len(words.evidence) == 12


def test_the_cause_names_what_narrowed() -> None:
    """A deviation that shrank on the way is part of the cause."""
    lines = noisy(creeping(1.5)[:80], std=0.9) + noisy(creeping(1.5), std=0.3)[80:]
    words = judged(KlCreep, lines, SETTINGS).words[0]
    assert words.cause.endswith("since then: standard deviation of the actions 0.9 -> 0.3")


def test_its_limits_are_those_of_the_run() -> None:
    """With `least_u` at 0.5 the creep to 0.7 counts."""
    limits = Limits(kl_creep=KlCreepLimits(least_u=0.5))
    assert judged(KlCreep, noisy(creeping(0.7)), SETTINGS, limits).changes


@pytest.mark.skipif(not TRACES.is_dir(), reason=ABSENT)
def test_healthy_runs_creep_to_the_edge_rarely() -> None:
    """At most one incident of information in 2000 healthy updates; the run that never learned is found."""
    incidents = updates = 0
    for name, label in labels().items():
        settings, lines = outside(name)
        found = [severity for _, severity in judged(KlCreep, lines, settings).changes if severity]
        assert set(found) <= {"info"}
        if label == "healthy":
            incidents, updates = incidents + len(found), updates + len(lines)
        elif label == "fail_no_learning":
            assert found
    assert updates > 20_000
    assert incidents <= updates / 2000
