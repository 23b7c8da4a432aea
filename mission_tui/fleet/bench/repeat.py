"""What is measured of one timed run: speed without its warm-up, phases, returns, and what it took of the machine; and
whether two timed presets do the same work, because a speed-up that changes what is learned is not one.

The wall clock between rows counts, so whatever a training does besides rollouts and updates slows it down here too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
