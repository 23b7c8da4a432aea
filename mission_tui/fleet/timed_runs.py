"""Timed runs: what is measured of each (speed without its warm-up, phases, returns, what it took of the machine), in
which order they take turns, and what two sets of repeats say of each other: faster, same or slower, or nothing.
Whether two timed presets do the same work is said here too, because a speed-up that changes what is learned is not
one.

The wall clock between rows counts, so whatever a training does besides rollouts and updates slows it down here too.

Speeds are compared as ratios, so the arithmetic is done on their logarithms: Student's interval, of the pairs where
the two took turns, because other load comes and goes more slowly than turns do; else with a pooled variance.

Three pairs say little of their own noise: three that happen to be alike look certain. The two halves of each run say
more, so pairs are never taken for more alike than those halves.

Load that stays slows all runs and changes no ratio; load that comes and goes slows one side of a round. So a round is
loaded where one of its runs met more than the calmest run of all did, and is run again. Which rounds count is decided
by their load alone, never by their speeds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from mission_tui.fleet.events.metrics import (
    MetricRecord,
    TrainingStarted,
    UpdateDone,
    counted_records,
    finite_returns,
)
from mission_tui.fleet.specs.sizes import plan_batch
from mission_tui.fleet.specs.spec import Spec, other_settings
from mission_tui.fleet.statistics.intervals import t_quantile

WARMUP_UPDATES = 2
WARMUP_SHARE = 0.1
"""The first updates load code, fill caches and size pools: two of them at least, and a tenth of the time. Of slow ones
the first is enough, so that no comparison fails at the one of its runs that did three.
"""

LEAST_UPDATES = 2
FINAL_SHARE = 10
_TASK = ("env.id", "env.config", "env.kwargs", "env.wrappers", "env.frame_stack")
_MACHINE = ("host", "cpu", "cores", "gpus")


class Timing(Struct, frozen=True, kw_only=True):
    """One timed run. `duration_s` lasts from the start of learning to the last update, `overshoot_s` of it beyond what
    was asked. `steps_per_s` leaves out the first `warmup_s`; `final_steps_per_s` is over the last tenth of the updates,
    `halves_steps_per_s` over the first half of those that count and over the second; None where time stood still.

    `rollout_share`, `update_share` and `other_share` are of the time after the warm-up; `other` is checkpoints,
    callbacks and records. Rewards are `rollout/ep_rew_mean`: first, last and highest; None where no episode ended.
    """

    duration_s: float
    overshoot_s: float
    warmup_s: float
    timesteps: int
    updates: int
    steps_per_s: float
    final_steps_per_s: float
    halves_steps_per_s: tuple[float, float] | None = None
    rollout_share: float
    update_share: float
    other_share: float
    episodes: int
    reward_initial: float | None = None
    reward_final: float | None = None
    reward_best: float | None = None


class Load(Struct, frozen=True, kw_only=True):
    """What a timed run took of the machine, while it trained; None is not known.

    `peak_rss_bytes` is the trainer's, `peak_pss_bytes` that of all its processes, shared memory counted once.
    `cpu_percent` 100 is one core; `elsewhere_percent` is what other processes took of all cores together.
    """

    peak_rss_bytes: int | None = None
    peak_pss_bytes: int | None = None
    cpu_percent: float | None = None
    elsewhere_percent: float | None = None


class Repeat(Struct, frozen=True, kw_only=True):
    """One repeat; `run` is its id, kept or not."""

    run: str
    seed: int | None
    timing: Timing
    load: Load = Load()


class Side(Struct, frozen=True, kw_only=True):
    """The repeats of one preset on one machine that count, in the order they were run.

    `set_aside` are the repeats of rounds that were run again because other work took more of the machine then.
    `work` are the settings on which it depends what is learned, `host` tells one machine from another, `versions` are
    of what a speed can depend on.
    """

    preset: str
    asked_s: float
    repeats: tuple[Repeat, ...]
    work: dict[str, Any]
    host: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    set_aside: tuple[Repeat, ...] = ()

    @property
    def rates(self) -> tuple[float, ...]:
        """Steps per second of each repeat."""
        return tuple(repeat.timing.steps_per_s for repeat in self.repeats)

    @property
    def drifts(self) -> tuple[float, ...]:
        """The logarithm of the second half's speed over the first's, of each repeat where both are known."""
        halves = (repeat.timing.halves_steps_per_s for repeat in self.repeats)
        return tuple(math.log(each[1] / each[0]) for each in halves if each is not None)


def timing_of(records: Iterable[MetricRecord], asked_s: float, warmup_updates: int = WARMUP_UPDATES) -> Timing | None:
    """The timing of a run that was to train for `asked_s` seconds; None where too few updates followed the warm-up,
    which has `warmup_updates` at least, or one where they are all but too few.
    """
    kept, _ = counted_records(records)
    begun = next((it.t for it in kept if isinstance(it, TrainingStarted)), None)
    rows = [it for it in kept if isinstance(it, UpdateDone)]
    if begun is None:
        return None
    least = min(warmup_updates, max(1, len(rows) - LEAST_UPDATES))
    warm = next((at for at, row in enumerate(rows, 1) if at >= least and row.t - begun >= WARMUP_SHARE * asked_s), None)
    if warm is None or len(rows) - warm < LEAST_UPDATES:
        return None
    last, start = rows[-1], rows[warm - 1]
    measured, taken_s = rows[warm:], last.t - start.t
    if taken_s <= 0.0:
        return None
    rollout, update = (sum(row.rollout_s for row in measured), sum(row.update_s for row in measured))
    tail = rows[-1 - max(1, len(measured) // FINAL_SHARE)]
    rewards = finite_returns(rows)
    return Timing(
        duration_s=last.t - begun,
        overshoot_s=max(0.0, last.t - begun - asked_s),
        warmup_s=start.t - begun,
        timesteps=last.timesteps,
        updates=last.update,
        steps_per_s=(last.timesteps - start.timesteps) / taken_s,
        halves_steps_per_s=_halves([start, *measured]),
        final_steps_per_s=(last.timesteps - tail.timesteps) / max(last.t - tail.t, 1e-9),
        rollout_share=rollout / taken_s,
        update_share=update / taken_s,
        other_share=max(0.0, 1.0 - (rollout + update) / taken_s),
        episodes=sum(row.episodes.n for row in rows),
        reward_initial=rewards[0] if rewards else None,
        reward_final=rewards[-1] if rewards else None,
        reward_best=max(rewards, default=None),
    )


def _halves(rows: Sequence[UpdateDone]) -> tuple[float, float] | None:
    first, middle, last = rows[0], rows[len(rows) // 2], rows[-1]
    if not first.t < middle.t < last.t:
        return None
    rates = [(b.timesteps - a.timesteps) / (b.t - a.t) for a, b in ((first, middle), (middle, last))]
    return rates[0], rates[1]


def work_of(spec: Spec) -> dict[str, object]:
    """The settings on which it depends what is learned, as they take effect."""
    plan = plan_batch(spec)
    ppo, env = spec.ppo, spec.env
    of_env: dict[str, object] = {
        "env.id": env.id,
        "env.config": env.config,
        "env.kwargs": repr(env.kwargs),
        "env.wrappers": repr(env.wrappers),
        "env.frame_stack": env.frame_stack or 1,
        "env.n_envs": env.n_envs,
        "env.normalize": repr(env.normalize),
    }
    if (settings := other_settings(spec)) is not None:
        named = {f"{spec.run.algo}.{name}": repr(getattr(settings, name)) for name in settings.__struct_fields__}
        return {**of_env, "run.algo": spec.run.algo, **named}
    return {
        **of_env,
        "ppo.algo": ppo.algo,
        "ppo.policy": ppo.policy,
        "ppo.n_steps": ppo.n_steps,
        "ppo.batch_size": plan.batch_size,
        "ppo.n_epochs": plan.n_epochs,
        "ppo.learning_rate": repr(ppo.learning_rate),
        "ppo.gamma": ppo.gamma,
        "ppo.target_kl": ppo.target_kl,
        "ppo.use_sde": ppo.use_sde,
        "ppo.net_arch": repr(ppo.net_arch),
        "ppo.policy_kwargs": repr(ppo.policy_kwargs),
    }


def incomparable(
    work: Mapping[str, object],
    against: Mapping[str, object],
    host: Mapping[str, str],
    other_host: Mapping[str, str],
) -> tuple[str, ...]:
    """Sentences on what makes a verdict on the two mean less than it says: other tasks, other work, other machines."""
    # A measurement of an earlier version knows fewer settings; nothing is said of what it does not know.
    differing = {key for key in work.keys() & against.keys() if work[key] != against[key]}
    sentences = []
    if task := sorted(differing & set(_TASK)):
        sentences.append(
            f"the tasks differ ({', '.join(task)}): a step of one does not cost what a step of the other does"
        )
    if other := [key for key in work if key in differing - set(_TASK)]:
        shown = ", ".join(f"{key} {work[key]} against {against.get(key)}" for key in other)
        sentences.append(f"they do not learn the same: {shown}")
    elsewhere = [key for key in _MACHINE if key in host and key in other_host and host[key] != other_host[key]]
    if elsewhere:
        shown = ", ".join(f"{key} {host[key]} against {other_host[key]}" for key in elsewhere)
        sentences.append(f"the machines differ: {shown}")
    return tuple(sentences)


Word = Literal["faster", "same", "slower"]

MARGIN = 0.05
"""A difference within so much of 1 changes no decision."""

_WIDE = 1.25
MORE_PERCENT = 5.0
"""Beyond the calmest run's, of all cores."""
MOST_TIMES = 2
"""So many times the rounds that were asked for are run at most."""

Loads = Sequence[Sequence[float | None]]
"""For each round what other work took during each of its runs, in percent of all cores; None is not known."""


class MedianSpeed(Struct, frozen=True, kw_only=True):
    """Steps per second over the repeats: their median, and the 95 % interval of their mean; None for one repeat."""

    median: float
    lo: float | None = None
    hi: float | None = None


class Ratio(Struct, frozen=True, kw_only=True):
    """Speed of one side over that of the other: the median of the pairs' ratios (the ratio of the medians where
    there are no pairs), and the 95 % interval of their mean.

    `verdict` None: these repeats do not say. `sentence` is the verdict in words.
    """

    ratio: float
    lo: float | None
    hi: float | None
    verdict: Word | None
    sentence: str

    def is_slower_by(self, margin: float) -> bool:
        """Whether it is certainly slower, and by more than the share `margin`."""
        return self.hi is not None and self.hi < 1.0 and self.ratio < 1.0 - margin


def pace_of(rates: Sequence[float]) -> MedianSpeed:
    """What the repeats' steps per second say together. Takes at least one."""
    median = statistics.median(rates)
    if len(rates) < 2:
        return MedianSpeed(median=median)
    lo, hi = _mean_interval(rates)
    return MedianSpeed(median=median, lo=lo, hi=hi)


def noise_of(*drifts: Sequence[float]) -> float:
    """The least variance of a logarithm of a ratio of two runs' speeds, by how differently the runs of each side drift.

    `drifts` are, for each side, logarithms of second halves' speeds over first ones'. A half's noise has half the
    variance of a drift, the mean of two halves a quarter; noise that outlasts a run comes on top.
    """
    return sum(statistics.variance(each) for each in drifts if len(each) > 1) / 4.0


def ratio_of(rates: Sequence[float], against: Sequence[float], *, paired: bool, noise: float = 0.0) -> Ratio:
    """What steps per second `rates` say beside `against`, all above 0; `paired`: each was run beside the one it is
    compared with. `noise` is the least variance that logarithms of their ratios are believed to have.

    Same: the interval contains 1 or lies within 5 % of it. Slower (faster): it lies below (above) 1, and the ratio is
    more than 5 % away. Else no verdict, and none where there are not two repeats of both.
    """
    pairs = [one / other for one, other in zip(rates, against, strict=True)] if paired else []
    ratio = statistics.median(pairs) if paired else statistics.median(rates) / statistics.median(against)
    if min(len(rates), len(against)) < 2:
        sentence = f"no verdict: {ratio:.2f} x the speed, and one repeat has no interval; give --repeat 3"
        return Ratio(ratio=ratio, lo=None, hi=None, verdict=None, sentence=sentence)
    if paired:
        lo, hi = _mean_interval(pairs, noise)
    else:
        lo, hi = _pooled_interval([math.log(rate) for rate in rates], [math.log(rate) for rate in against], noise / 2.0)
    return _judged(ratio, lo, hi)


def ratios_of(rates: Sequence[Sequence[float]], noise: float = 0.0) -> tuple[Ratio, ...]:
    """What each row of steps per second says beside the first one, all rows being of the same rounds; `noise` as above.

    Speeds are compared within rounds, with one noise for all rows, and each interval is made so wide that all of them
    hold together (Bonferroni): the fastest of many looks faster than it is. One round gives no interval.
    """
    first, *others = rates
    if len(first) < 2 or not others:
        return tuple(ratio_of(row, first, paired=True) for row in others)
    logs, rounds = [[math.log(rate) for rate in row] for row in rates], len(first)
    of_round = [statistics.fmean(column) for column in zip(*logs, strict=True)]
    left = [[value - shift for value, shift in zip(row, of_round, strict=True)] for row in logs]
    freedom = len(others) * (rounds - 1)
    pooled = sum((value - statistics.fmean(row)) ** 2 for row in left for value in row) / freedom
    half = t_quantile(1.0 - 0.025 / len(others), freedom) * math.sqrt(max(2.0 * pooled, noise) / rounds)
    found = []
    for row, its in zip(others, logs[1:], strict=True):
        centre = statistics.fmean(its) - statistics.fmean(logs[0])
        ratio = statistics.median(one / other for one, other in zip(row, first, strict=True))
        found.append(_judged(ratio, math.exp(centre - half), math.exp(centre + half)))
    return tuple(found)


def _judged(ratio: float, lo: float, hi: float) -> Ratio:
    verdict = _verdict(ratio, lo, hi)
    figures = f"{ratio:.2f} x the speed, 95 % interval {lo:.2f} to {hi:.2f}"
    if verdict is None:
        sentence = (
            f"no verdict: {figures}; the interval excludes 1, but the median is less than {MARGIN:.0%} away from it"
        )
    elif verdict == "same" and hi / lo > _WIDE:
        sentence = f"same, as far as these repeats can tell: {figures}, which is wide; more or longer repeats say more"
    else:
        sentence = f"{verdict}: {figures}"
    return Ratio(ratio=ratio, lo=lo, hi=hi, verdict=verdict, sentence=sentence)


def _verdict(ratio: float, lo: float, hi: float) -> Word | None:
    if lo <= 1.0 <= hi or (lo >= 1.0 - MARGIN and hi <= 1.0 + MARGIN):
        return "same"
    if hi < 1.0 and ratio < 1.0 - MARGIN:
        return "slower"
    if lo > 1.0 and ratio > 1.0 + MARGIN:
        return "faster"
    return None


def _mean_interval(values: Sequence[float], noise: float = 0.0) -> tuple[float, float]:
    logs = [math.log(value) for value in values]
    variance = max(statistics.variance(logs), noise)
    centre, half = statistics.fmean(logs), t_quantile(0.975, len(logs) - 1) * math.sqrt(variance / len(logs))
    return math.exp(centre - half), math.exp(centre + half)


def _pooled_interval(one: Sequence[float], other: Sequence[float], noise: float) -> tuple[float, float]:
    freedom = len(one) + len(other) - 2
    pooled = ((len(one) - 1) * statistics.variance(one) + (len(other) - 1) * statistics.variance(other)) / freedom
    half = t_quantile(0.975, freedom) * math.sqrt(max(pooled, noise) * (1 / len(one) + 1 / len(other)))
    centre = statistics.fmean(one) - statistics.fmean(other)
    return math.exp(centre - half), math.exp(centre + half)


def order_of(number: int, sides: int) -> tuple[int, ...]:
    """The sides (0 is the preset itself, 1 what it is held against) in their order in round `number`, from 1."""
    forth = tuple(range(sides))
    return forth if number % 2 else forth[::-1]


def is_enough(loads: Loads, repeats: int) -> bool:
    """Whether `repeats` rounds were calm, or `MOST_TIMES` as many were run."""
    return len(_calm(loads)) >= repeats or len(loads) >= MOST_TIMES * repeats


def undisturbed_rounds(loads: Loads, repeats: int) -> tuple[int, ...]:
    """The places of the rounds that count: the calm ones, or all where even so there are not `repeats` of those.

    Of many loaded rounds all together say more than the few least loaded.
    """
    calm = _calm(loads)
    return calm if len(calm) >= repeats else tuple(range(len(loads)))


def _calm(loads: Loads) -> tuple[int, ...]:
    known = [[load for load in each if load is not None] for each in loads]
    limit = min((load for each in known for load in each), default=0.0) + MORE_PERCENT
    return tuple(place for place, each in enumerate(known) if max(each, default=0.0) <= limit)
