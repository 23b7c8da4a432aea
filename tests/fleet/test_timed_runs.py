"""Turns, timings and verdicts of timed runs."""

from __future__ import annotations

import math
import random
import statistics
from itertools import accumulate

import pytest
from msgspec.structs import replace

from mission_tui.fleet.events.metrics import Episodes, MetricRecord, TrainingStarted, UpdateDone
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, Spec
from mission_tui.fleet.timed_runs import (
    incomparable,
    is_enough,
    noise_of,
    order_of,
    pace_of,
    ratio_of,
    timing_of,
    undisturbed_rounds,
    work_of,
)


def rates(draws: random.Random, level: float, noise: float, repeats: int) -> list[float]:
    """Steps per second with a relative noise."""
    return [level * draws.lognormvariate(0.0, noise) for _ in range(repeats)]


@pytest.mark.parametrize("noise", [0.01, 0.04, 0.15])
@pytest.mark.parametrize("repeats", [3, 5])
@pytest.mark.parametrize("paired", [True, False])
def test_a_preset_is_the_same_as_itself(noise: float, repeats: int, paired: bool) -> None:
    """In at least 19 of 20 benches of one preset against itself, whatever the noise of the machine."""
    draws = random.Random(f"{noise} {repeats}")
    sides = ((rates(draws, 9000, noise, repeats), rates(draws, 9000, noise, repeats)) for _ in range(2000))
    words = [ratio_of(one, other, paired=paired).verdict for one, other in sides]
    # 1,900 is what an interval of 95 % promises; three times the scatter of 2,000 benches is 29.
    assert words.count("same") >= 1871


def drifting(draws: random.Random, level: float, noise: float) -> tuple[list[float], list[float]]:
    """Speeds of three runs and how they drifted; what disturbs lasts for half a run or for a whole one."""
    halves = [[draws.gauss(0.0, noise) for _ in range(2)] for _ in range(3)]
    whole = [draws.gauss(0.0, noise) for _ in range(3)]
    speeds = [level * math.exp(each + statistics.fmean(two)) for each, two in zip(whole, halves, strict=True)]
    return speeds, [0.2 + two[1] - two[0] for two in halves]


@pytest.mark.parametrize("noise", [0.03, 0.05, 0.1])
def test_pairs_that_happen_to_be_alike_are_no_certainty(noise: float) -> None:
    """What the halves of each run say of the noise halves the wrong verdicts, and hides nothing that is slower.

    All runs speed up by a fifth, as an environment does that is learned: that is no noise.
    """
    draws = random.Random(6)
    alone, known, slower = 0, 0, 0
    for _ in range(2000):
        (one, first), (other, second) = (drifting(draws, 9000, noise) for _ in range(2))
        alone += ratio_of(one, other, paired=True).verdict == "same"
        known += ratio_of(one, other, paired=True, noise=noise_of(first, second)).verdict == "same"
        slow = [0.42 * rate for rate in one]
        slower += ratio_of(slow, other, paired=True, noise=noise_of(first, second)).verdict == "slower"
    assert 2000 - known <= (2000 - alone) / 2
    assert slower >= (1860 if noise == 0.1 else 2000)


def test_a_measurement_without_halves_is_judged_by_its_pairs() -> None:
    """One run, or none whose halves are known, says nothing of noise."""
    assert noise_of((), (0.3,)) == 0.0
    assert noise_of((0.1, 0.3), (0.2,)) == pytest.approx(0.02 / 4)


def test_a_machine_that_slows_down_is_nobodys_fault() -> None:
    """With turns A B B A A B, a machine that loses a third of its speed during the bench changes no verdict."""
    draws = random.Random(3)
    order = [side for number in (1, 2, 3) for side in order_of(number, 2)]
    words = []
    for _ in range(500):
        fading = [9000 * (1 - 0.06 * at) * draws.lognormvariate(0.0, 0.02) for at in range(len(order))]
        sides: list[list[float]] = [[], []]
        for side, rate in zip(order, fading, strict=True):
            sides[side].append(rate)
        words.append(ratio_of(sides[0], sides[1], paired=True).verdict)
    assert words.count("same") == 500


def test_load_that_comes_and_goes_hides_nothing() -> None:
    """Where the machine gives both runs of a pair the same third of itself, pairs still show what is slower."""
    shares = (1.0, 0.35, 0.4)
    one, other = [4000 * share for share in shares], [9000 * share * 1.02 for share in shares]
    assert ratio_of(one, other, paired=True).verdict == "slower"
    assert ratio_of(one, other, paired=False).verdict == "same"


@pytest.mark.parametrize("noise", [0.01, 0.04, 0.06])
def test_three_times_the_epochs_are_slower(noise: float) -> None:
    """What takes half as long again at least is called slower in every bench."""
    draws = random.Random(5)
    words = {
        ratio_of(rates(draws, 4000, noise, 3), rates(draws, 9000, noise, 3), paired=True).verdict for _ in range(500)
    }
    assert words == {"slower"}


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        ((100.0, 101.0, 99.0), (100.0, 100.5, 99.5), "same"),
        ((97.0, 97.1, 96.9), (100.0, 100.1, 99.9), "same"),
        ((90.0, 90.1, 89.9), (100.0, 100.1, 99.9), "slower"),
        ((110.0, 110.1, 109.9), (100.0, 100.1, 99.9), "faster"),
        ((95.5, 97.0, 94.0), (100.0, 100.1, 99.9), None),
        ((80.0,), (100.0, 100.1), None),
    ],
)
def test_the_verdict_follows_its_rule(one: tuple[float, ...], other: tuple[float, ...], word: str | None) -> None:
    """Contains 1 or within 5 %: same; beside 1 and more than 5 % away: slower or faster; else nothing is said."""
    found = ratio_of(one, other, paired=False)
    assert found.verdict == word
    assert found.sentence.startswith("no verdict" if word is None else word)


def test_a_failure_needs_a_sure_difference() -> None:
    """`--fail-if-slower` looks at the interval too: a noisy half speed does not fail a build, a sure one does."""
    assert ratio_of([45.0, 50.0, 55.0], [100.0, 100.0, 100.0], paired=True).is_slower_by(0.05)
    assert not ratio_of([20.0, 50.0, 120.0], [100.0, 100.0, 100.0], paired=True).is_slower_by(0.05)
    assert not ratio_of([97.0, 97.1, 96.9], [100.0, 100.1, 99.9], paired=True).is_slower_by(0.05)
    assert ratio_of([97.0, 97.1, 96.9], [100.0, 100.1, 99.9], paired=True).is_slower_by(0.02)


def test_turns_go_forth_and_back() -> None:
    """A B, B A, A B; one side alone simply repeats."""
    assert [order_of(number, 2) for number in (1, 2, 3)] == [(0, 1), (1, 0), (0, 1)]
    assert [order_of(number, 1) for number in (1, 2)] == [(0,), (0,)]


@pytest.mark.parametrize(
    ("loads", "enough", "places"),
    [
        pytest.param([(1.0, 2.0), (0.0, 4.9), (3.0, 0.5)], True, (0, 1, 2), id="calm"),
        pytest.param([(61.0, 62.0), (60.0, 64.0), (61.0, 60.0)], True, (0, 1, 2), id="load that stays"),
        pytest.param([(1.0, 2.0), (1.0, 40.0), (3.0, 1.0)], False, (0, 1, 2), id="one side loaded"),
        pytest.param([(1.0, 2.0), (40.0, 40.0), (3.0, 1.0)], False, (0, 1, 2), id="both sides loaded"),
        pytest.param([(1.0, 2.0), (1.0, 40.0), (3.0, 1.0), (2.0, 2.0)], True, (0, 2, 3), id="run again"),
        pytest.param([(9.0, 2.0)] * 2 + [(30.0, 8.0)] * 3 + [(20.0, 20.0)], True, (0, 1, 2, 3, 4, 5), id="never calm"),
        pytest.param([(None, None), (None, 90.0), (1.0, 2.0)], False, (0, 1, 2), id="partly unknown"),
        pytest.param([(None, None)] * 3, True, (0, 1, 2), id="unknown"),
        pytest.param([(5.0,), (30.0,), (6.0,)], False, (0, 1, 2), id="one preset"),
        pytest.param([(5.0, 30.0), (6.0, 7.0), (5.0, 6.0)], False, (0, 1, 2), id="two calm"),
    ],
)
def test_rounds_that_met_more_of_other_work_are_run_again(
    loads: list[tuple[float | None, ...]], enough: bool, places: tuple[int, ...]
) -> None:
    """Three rounds are asked for; a loaded one is replaced by a calm one, or by whatever came within six."""
    assert is_enough(loads, 3) is enough
    assert undisturbed_rounds(loads, 3) == places


def test_stolen_time_hides_no_slowness_and_invents_none() -> None:
    """A host that takes up to two thirds of a core from single runs changes hardly any verdict."""
    draws = random.Random(8)

    def bench(slowness: float) -> str | None:
        rounds: list[tuple[float, float]] = []
        loads: list[tuple[float, float]] = []
        while not is_enough(loads, 3):
            taken = [draws.uniform(0.0, 0.02) if draws.random() < 0.7 else draws.uniform(0.1, 0.65) for _ in "AB"]
            speeds = [9000 * (1.0 - share) * draws.lognormvariate(0.0, 0.03) for share in taken]
            rounds.append((speeds[0] / slowness, speeds[1]))
            loads.append((50 * taken[0], 50 * taken[1]))  # of two cores
        one, other = zip(*(rounds[place] for place in undisturbed_rounds(loads, 3)), strict=True)
        return ratio_of(one, other, paired=True).verdict

    assert sum(bench(2.2) == "slower" for _ in range(1000)) >= 960
    assert sum(bench(1.0) == "same" for _ in range(1000)) >= 940


def recorded(update_s: list[float], steps: int = 100) -> list[MetricRecord]:
    """A training whose updates took so long."""
    rows: list[MetricRecord] = [TrainingStarted(1, 1, 1000.0)]
    for number, t in enumerate(accumulate(update_s), 1):
        took = update_s[number - 1]
        rows.append(
            UpdateDone(
                *(number + 1, 1, number, number * steps, 1000.0 + t, took * 0.6, took * 0.3, steps / took),
                {"rollout/ep_rew_mean": float(-abs(number - 8))},
                Episodes(n=2),
            )
        )
    return rows


def test_the_warm_up_does_not_count() -> None:
    """Slow first updates change nothing of the speed, and overshoot is what lies beyond the time asked for."""
    timing = timing_of(recorded([3.0, 2.0] + [0.5] * 11), asked_s=10.0)
    assert timing is not None
    assert timing.steps_per_s == pytest.approx(200.0)
    assert timing.warmup_s == pytest.approx(5.0)
    assert timing.overshoot_s == pytest.approx(0.5)
    assert timing.halves_steps_per_s == pytest.approx((200.0, 200.0))
    assert (timing.rollout_share, timing.update_share) == pytest.approx((0.6, 0.3))
    assert timing.other_share == pytest.approx(0.1)
    assert (timing.timesteps, timing.updates, timing.episodes) == (1300, 13, 26)
    assert (timing.reward_initial, timing.reward_best, timing.reward_final) == (-7.0, 0.0, -5.0)


def test_what_disturbs_one_half_is_seen() -> None:
    """The first half at 200 steps/s, the second at 100."""
    timing = timing_of(recorded([0.5] * 7 + [1.0] * 5), asked_s=8.0)
    assert timing is not None
    assert timing.halves_steps_per_s == pytest.approx((200.0, 100.0))


def test_the_warm_up_lasts_a_tenth_of_the_time() -> None:
    """Short updates warm up for as long as a tenth of the time; the speed after it is what counts."""
    timing = timing_of(recorded([0.02] * 50 + [0.01] * 900), asked_s=10.0)
    assert timing is not None
    assert timing.warmup_s == pytest.approx(1.0)
    assert timing.steps_per_s == pytest.approx(10_000.0)


def test_too_few_updates_are_no_timing() -> None:
    """Two updates after the warm-up are the least from which a speed is taken."""
    assert timing_of(recorded([8.0, 4.0]), asked_s=10.0) is None
    assert timing_of([], asked_s=10.0) is None


@pytest.mark.parametrize(("updates_s", "warmup_s"), [([4.0] * 3, 4.0), ([4.0] * 4, 8.0), ([4.0] * 9, 8.0)])
def test_the_warm_up_is_two_updates_or_the_first_of_three(updates_s: list[float], warmup_s: float) -> None:
    """One run of a comparison that did an update less than the others is no reason to have none."""
    timing = timing_of(recorded(updates_s), asked_s=10.0)
    assert timing is not None
    assert timing.warmup_s == pytest.approx(warmup_s)


def test_what_is_not_comparable_is_named() -> None:
    """Another batch size or learning rate is other work; threads and workers are what one compares."""
    spec = Spec(preset="a", env=EnvSpec(id="CartPole-v1", n_envs=8), ppo=PpoSpec(n_steps=64, batch_size=128))
    other = Spec(preset="b", env=EnvSpec(id="CartPole-v1", n_envs=8), ppo=PpoSpec(n_steps=64, batch_size=256))
    workers = Spec(preset="c", env=EnvSpec(id="CartPole-v1", n_envs=8, vec="workers", n_workers=2), ppo=spec.ppo)
    task = Spec(preset="d", env=EnvSpec(id="Acrobot-v1", n_envs=8), ppo=spec.ppo)
    host = {"host": "here", "cpu": "x"}
    (sentence,) = incomparable(work_of(spec), work_of(other), host, host)
    assert "ppo.batch_size 128 against 256" in sentence
    assert incomparable(work_of(spec), work_of(workers), host, host) == ()
    assert "env.id" in incomparable(work_of(spec), work_of(task), host, host)[0]
    early = replace(spec, ppo=replace(spec.ppo, target_kl=0.01, policy_kwargs={"ortho_init": False}))
    (sentence,) = incomparable(work_of(spec), work_of(early), host, host)
    assert "ppo.target_kl None against 0.01, ppo.policy_kwargs" in sentence
    older = {key: value for key, value in work_of(early).items() if key not in ("ppo.target_kl", "ppo.policy_kwargs")}
    assert incomparable(work_of(spec), older, host, host) == ()
    assert "machines differ" in incomparable(work_of(spec), work_of(spec), host, {"host": "there"})[0]


def test_a_pace_has_an_interval_from_two_repeats_on() -> None:
    """One repeat has a median and no interval."""
    assert pace_of([100.0]).lo is None
    pace = pace_of([90.0, 100.0, 110.0])
    assert pace.lo is not None
    assert pace.hi is not None
    assert pace.lo < 90.0 < pace.median == 100.0 < 110.0 < pace.hi
