"""How large things become by the settings of a run. How a rollout is cut into minibatches and how often it is gone
through: the numbers that PPO will really use; and what auto-scaling makes of a large rollout: the update without it,
with it, and that of the reference, side by side. How large a replay buffer becomes, and what a checkpoint of it takes.

What the user wrote is never changed; only what nobody wrote is chosen, and the reason goes with it. The scaling rules
are those of source 004 (256 x 128 = 32,768 transitions, 4 minibatches of 8,192, 4 epochs, learning rate 2.5e-4). The
learning rate is never changed; where the gradient steps grew, the one that would compensate is proposed.

A minibatch is always a true divisor of the rollout buffer, preferably one that hardware likes. The search for it is
total: each buffer size from 1 up has an answer, and poor choices are called poor.

SB3 allocates the whole buffer at the start, but memory is taken only as it fills: a run that has trained for a minute
says nothing of what it will take.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct, structs

from mission_tui.fleet.specs.algorithm import keeps_replay_buffer, replay_buffer_of
from mission_tui.fleet.specs.sb3_algorithms import AlgorithmSpec, gradient_steps, other_algorithm
from mission_tui.fleet.specs.spec import Schedule, Spec, other_settings, rollout_size

REFERENCE_ROLLOUT = 32_768
REFERENCE_MINIBATCH = 8_192
REFERENCE_EPOCHS = 4
REFERENCE_GRADIENT_STEPS = 16
REFERENCE_LEARNING_RATE = 2.5e-4
FEWEST_EPOCHS = 2
SB3_BATCH_SIZE = 64
SB3_EPOCHS = 10
AUTO_MINIBATCHES = 4
WITH_WORKERS = ("split", "workers")
"""The kinds of `env.vec` that start env workers."""
_NEAR = 2.0
_FAR = 4.0
_LARGEST_BATCH = 8192
_LARGEST_TRIAL = 2**16


class BatchPlan(Struct, frozen=True):
    """One update: `minibatches` of `batch_size` transitions, `n_epochs` times. `gradient_steps` is their product.

    `proposed_learning_rate` is what would hold the update near the reference; None when there is nothing to propose.
    """

    batch_size: int
    n_epochs: int
    minibatches: int
    gradient_steps: int
    reasons: tuple[str, ...]
    proposed_learning_rate: float | None = None


def plan_batch(spec: Spec) -> BatchPlan:
    """The batch size, epochs and gradient steps per update of `spec`, with reasons.

    A written ``batch_size`` stays even if it does not divide the buffer (SB3 then truncates each epoch's last
    minibatch); a chosen one always divides it. Never raises.
    """
    buffer = rollout_size(spec)
    if (other := other_settings(spec)) is not None:
        return _other_plan(other, spec.env.n_envs)
    scaling = spec.run.auto_scale and buffer >= REFERENCE_ROLLOUT
    batch_size, batch_reason = _batch_size(spec, buffer, scaling)
    minibatches = math.ceil(buffer / batch_size)
    n_epochs, epochs_reason = _epochs(spec, minibatches, scaling)
    steps = minibatches * n_epochs
    proposed = _proposed_learning_rate(spec, steps) if scaling else None
    reasons = [f"ppo.batch_size: {batch_reason}", f"ppo.n_epochs: {epochs_reason}"]
    if spec.run.auto_scale and not scaling:
        reasons.append(f"run.auto_scale: nothing to scale below {REFERENCE_ROLLOUT:,} transitions, this is {buffer:,}")
    if proposed is not None:
        reasons.append(
            f"ppo.learning_rate: {steps} gradient steps per update against the reference's {REFERENCE_GRADIENT_STEPS}; "
            f"{starting_learning_rate(spec):.3g} is used, {proposed:.3g} would compensate"
        )
    return BatchPlan(batch_size, n_epochs, minibatches, steps, tuple(reasons), proposed)


def _other_plan(settings: AlgorithmSpec, n_envs: int) -> BatchPlan:
    """Of another algorithm than PPO: nothing is chosen, each period has the minibatches that its settings make."""
    steps = max(1, gradient_steps(settings, n_envs))
    batch = getattr(settings, "batch_size", None) or n_envs * getattr(settings, "n_steps", 1)
    return BatchPlan(batch, 1, steps, steps, ())


def starting_learning_rate(spec: Spec) -> float:
    """The learning rate of the first update; of a schedule, its start."""
    other = other_settings(spec)
    rate = spec.ppo.learning_rate if other is None else other.learning_rate
    return rate.start if isinstance(rate, Schedule) else rate


def update_pressure(spec: Spec) -> float:
    """Gradient steps per update times learning rate, as a multiple of the reference's 16 x 2.5e-4.

    A plain number without a verdict: tuned settings of the RL zoo reach from 5 to 160.
    """
    reference = REFERENCE_GRADIENT_STEPS * REFERENCE_LEARNING_RATE
    return plan_batch(spec).gradient_steps * starting_learning_rate(spec) / reference


EXTREME_PRESSURE, USUAL_PRESSURE = 40.0, 4.0
"""Healthy runs of the score have one of up to 10. What is extreme is brought to the upper end of what is typical."""
MOST_PRESSURE = 160.0
"""The greatest of the RL zoo's tuned settings."""
EXTREME_RATE = 1e-2
"""No published setting of PPO with Adam has as much: from here on it is the rate, whatever else there is."""
UNHEARD_OF_PRESSURE = 200.0
"""Beyond every tuned setting, whatever the rate."""


def is_extreme(pressure: float, learning_rate: float) -> bool:
    """Whether an update with so much pressure is expected to break the policy, by its learning rate."""
    return pressure >= UNHEARD_OF_PRESSURE or (pressure >= EXTREME_PRESSURE and learning_rate >= EXTREME_RATE)


def pressure_caution(spec: Spec) -> str:
    """What is to be read before `spec` is launched; "" where the pressure of its updates is nothing unheard of."""
    pressure, rate = update_pressure(spec), starting_learning_rate(spec)
    if not is_extreme(pressure, rate):
        return ""
    usual = f"ppo.learning_rate={rate * USUAL_PRESSURE / pressure:.2g}"
    known = f"tuned settings have up to {MOST_PRESSURE:g}"
    if pressure < UNHEARD_OF_PRESSURE:
        known = f"at a learning rate of {rate:g}, and tuned settings have less than {EXTREME_RATE:g}"
    return f"update pressure {pressure:,.0f}: {known}; --set {usual} makes it {USUAL_PRESSURE:g}"


def _batch_size(spec: Spec, buffer: int, scaling: bool) -> tuple[int, str]:
    written = spec.ppo.batch_size
    if isinstance(written, int):
        if buffer % written == 0:
            return written, f"{written:,} as written"
        near = " or ".join(f"{divisor:,}" for divisor in nearby_divisors(buffer, written))
        return written, (
            f"{written:,} as written does not divide the rollout of {buffer:,} and leaves a last minibatch of "
            f"{buffer % written:,}; {near} would divide it (the sources refuse such a size; here, as in "
            "Stable-Baselines3, it is trained with)"
        )
    if scaling:
        choice = choose_batch(buffer, REFERENCE_MINIBATCH)
        return choice.size, f"auto-scaled to keep the reference's minibatch: {choice.reason}"
    if written == "auto":
        choice = choose_batch(buffer, buffer // AUTO_MINIBATCHES)
        return choice.size, f"a quarter of the rollout: {choice.reason}"
    if buffer % SB3_BATCH_SIZE == 0:
        return SB3_BATCH_SIZE, f"{SB3_BATCH_SIZE}, SB3's default"
    choice = choose_batch(buffer, SB3_BATCH_SIZE, smallest=SB3_BATCH_SIZE // 2)
    return choice.size, f"SB3's default of {SB3_BATCH_SIZE} does not divide {buffer:,}: {choice.reason}"


def _epochs(spec: Spec, minibatches: int, scaling: bool) -> tuple[int, str]:
    if spec.ppo.n_epochs is not None:
        return spec.ppo.n_epochs, f"{spec.ppo.n_epochs} as written"
    if not scaling:
        return SB3_EPOCHS, f"{SB3_EPOCHS}, SB3's default"
    epochs = min(max(REFERENCE_GRADIENT_STEPS // minibatches, FEWEST_EPOCHS), REFERENCE_EPOCHS)
    return epochs, (
        f"auto-scaled to {epochs}: {minibatches} minibatches make {epochs * minibatches} gradient steps; "
        f"the reference makes {REFERENCE_GRADIENT_STEPS}, and rare events need at least {FEWEST_EPOCHS} passes"
    )


def _proposed_learning_rate(spec: Spec, steps: int) -> float | None:
    """Learning rate x reference steps / steps; a rate already below the reference's needs no more than to match it."""
    current = starting_learning_rate(spec)
    proposed = max(current, REFERENCE_LEARNING_RATE) * REFERENCE_GRADIENT_STEPS / steps
    return proposed if steps > REFERENCE_GRADIENT_STEPS and proposed < current else None


class BatchChoice(Struct, frozen=True):
    """A divisor of the buffer, and the sentence that says why this one."""

    size: int
    reason: str


@lru_cache(maxsize=64)
def divisors(number: int) -> tuple[int, ...]:
    """All positive divisors of `number` (at least 1), ascending; beyond 2^32 only those that 65,536 trials find."""
    low = [candidate for candidate in range(1, min(math.isqrt(number), _LARGEST_TRIAL) + 1) if number % candidate == 0]
    high = [number // candidate for candidate in reversed(low) if candidate * candidate != number]
    return (*low, *high)


def nearby_divisors(number: int, wanted: int) -> tuple[int, ...]:
    """The nearest divisor of `number` at or below `wanted` and the nearest above it, as far as they exist."""
    every = divisors(number)
    below = [divisor for divisor in every if divisor <= wanted]
    above = [divisor for divisor in every if divisor > wanted]
    return (*below[-1:], *above[:1])


def shares_of(vec: str, n_workers: int) -> int:
    """How many processes step a share of the environments with so many workers: "split" has the trainer among them."""
    return n_workers + (vec == "split")


def nearby_workers(vec: str, n_envs: int, wanted: int) -> tuple[int, ...]:
    """The numbers of workers nearest to `wanted`, below and above, that can share the environments evenly under `vec`.

    Empty where one environment would have to be split.
    """
    own = shares_of(vec, 0)
    return tuple(shares - own for shares in nearby_divisors(n_envs, wanted + own) if shares > own)


def choose_batch(buffer: int, target: int, smallest: int = 64) -> BatchChoice:
    """The divisor of `buffer` nearest to `target` on a log scale, between `smallest` and 8,192 transitions.

    Multiples of 64, then of 32, are preferred as long as one lies within a factor of two of the target; beyond that
    the distance costs more than the alignment gains. Where no divisor lies between the limits the next larger one is
    taken, because tiny minibatches multiply the gradient steps; a buffer below `smallest` is taken whole.
    """
    aim = min(max(target, smallest), _LARGEST_BATCH)
    inside = [divisor for divisor in divisors(buffer) if smallest <= divisor <= _LARGEST_BATCH]
    inside = inside or [next((divisor for divisor in divisors(buffer) if divisor > _LARGEST_BATCH), buffer)]
    for alignment in (64, 32):
        near = [d for d in inside if d % alignment == 0 and 1 / _NEAR <= d / aim <= _NEAR]
        if near:
            best = _nearest(near, aim)
            reason = f"{best:,} divides {buffer:,}, is a multiple of {alignment} and nearest to {aim:,}"
            return BatchChoice(best, reason)
    best = _nearest(inside, aim)
    if 1 / _FAR <= best / aim <= _FAR and smallest <= best <= _LARGEST_BATCH:
        return BatchChoice(best, f"{best:,} divides {buffer:,} and is nearest to {aim:,}; no multiple of 32 is near it")
    return BatchChoice(
        best,
        f"only poor choices: of the divisors of {buffer:,}, the nearest to {aim:,} is "
        f"{' or '.join(f'{divisor:,}' for divisor in nearby_divisors(buffer, aim))}; took {best:,} "
        "(make ppo.n_steps a multiple of 64 for better ones)",
    )


def _nearest(candidates: list[int], aim: int) -> int:
    return min(candidates, key=lambda divisor: (abs(math.log(divisor / aim)), divisor))


class ScaledRow(Struct, frozen=True):
    """One number of an update: in source 004's reference (256 x 128), without auto-scaling, and with it."""

    name: str
    reference: float
    without: float
    scaled: float


class Scaling(Struct, frozen=True):
    """The rows, and the learning rate that would hold the update near the reference; None where the given one does."""

    rows: tuple[ScaledRow, ...]
    proposed_learning_rate: float | None

    @property
    def sentence(self) -> str:
        """What is proposed; nothing is done about it."""
        if self.proposed_learning_rate is None:
            return ""
        rate = f"{self.proposed_learning_rate:.3g}"
        return (
            f"ppo.learning_rate={rate} would make up for the gradient steps; it is only proposed: "
            f"--set ppo.learning_rate={rate}"
        )


def scaling_of(spec: Spec) -> Scaling | None:
    """What auto-scaling does to `spec`; None where it is off, or the rollout too small for it."""
    if not spec.run.auto_scale or rollout_size(spec) < REFERENCE_ROLLOUT:
        return None
    plain = plan_batch(structs.replace(spec, run=structs.replace(spec.run, auto_scale=False)))
    scaled, rate, size = plan_batch(spec), starting_learning_rate(spec), rollout_size(spec)
    minibatches = REFERENCE_ROLLOUT // REFERENCE_MINIBATCH
    rows = (
        ScaledRow("rollout", REFERENCE_ROLLOUT, size, size),
        ScaledRow("ppo.batch_size", REFERENCE_MINIBATCH, plain.batch_size, scaled.batch_size),
        ScaledRow("minibatches", minibatches, plain.minibatches, scaled.minibatches),
        ScaledRow("ppo.n_epochs", REFERENCE_EPOCHS, plain.n_epochs, scaled.n_epochs),
        ScaledRow("gradient steps", REFERENCE_GRADIENT_STEPS, plain.gradient_steps, scaled.gradient_steps),
        ScaledRow("ppo.learning_rate", REFERENCE_LEARNING_RATE, rate, rate),
    )
    return Scaling(rows, scaled.proposed_learning_rate)


_ATARI_SIDE = 84
"""Of the images that SB3's wrapper of Atari shows."""
_BESIDES = 3 * 4
"""Reward, end and timeout of a transition."""
_SIZES: Mapping[str, tuple[int, int]] = {
    "CartPole-v1": (4, 1),
    "Acrobot-v1": (6, 1),
    "MountainCar-v0": (2, 1),
    "MountainCarContinuous-v0": (2, 1),
    "Pendulum-v1": (3, 1),
    "LunarLander-v3": (8, 1),
    "LunarLanderContinuous-v3": (8, 2),
    "BipedalWalker-v3": (24, 4),
    "BipedalWalkerHardcore-v3": (24, 4),
    "CarRacing-v3": (96 * 96 * 3, 3),
    "Ant-v5": (105, 8),
    "HalfCheetah-v5": (17, 6),
    "Hopper-v5": (11, 3),
    "Humanoid-v5": (348, 17),
    "InvertedDoublePendulum-v5": (9, 1),
    "InvertedPendulum-v5": (4, 1),
    "Pusher-v5": (23, 7),
    "Reacher-v5": (10, 2),
    "Swimmer-v5": (8, 2),
    "Walker2d-v5": (17, 6),
}
"""Numbers in an observation and in an action, of Gymnasium's own environments; a choice counts as one."""
_DOUBLES = ("Ant", "HalfCheetah", "Hopper", "Humanoid", "Inverted", "Pusher", "Reacher", "Swimmer", "Walker2d")
_IMAGES = ("CarRacing",)


class ReplaySize(Struct, frozen=True):
    """Bytes of a replay buffer once it is full, and in one checkpoint of a finished run. `assumed`: the observations
    are not known before the environment is made, and those of MissionGym stand for them.
    """

    full_bytes: int
    checkpoint_bytes: int
    kept: int
    assumed: bool = False

    @property
    def kept_bytes(self) -> int:
        """In all checkpoints that stay, together."""
        return self.kept * self.checkpoint_bytes


def replay_size(spec: Spec, obs_floats: int = 42) -> ReplaySize | None:
    """The size for `spec`; None where it has no replay buffer."""
    settings, other = replay_buffer_of(spec), other_algorithm(spec.run.algo)
    if settings is None or other is None:
        return None
    observation, action, assumed = _bytes_of(spec, obs_floats)
    action = action * 4 if other.actions == ("Box",) else 8
    transition = observation * (1 if settings.optimize_memory_usage else 2) + action + _BESIDES
    n_envs = spec.env.n_envs
    held = max(settings.buffer_size // n_envs, 1) * n_envs
    total = spec.run.total_timesteps
    written = held if total is None or settings.optimize_memory_usage else min(held, total)
    size = written * transition if keeps_replay_buffer(spec) else 0
    return ReplaySize(
        full_bytes=held * transition,
        checkpoint_bytes=size,
        kept=spec.keep.checkpoint.most(size) if size else 0,
        assumed=assumed,
    )


def _bytes_of(spec: Spec, obs_floats: int) -> tuple[int, int, bool]:
    """Bytes of one observation, numbers of one action, and whether both are only assumed."""
    name, frames = spec.env.id.rpartition(":")[2], spec.env.frame_stack or 1
    if any("AtariWrapper" in str(part) for part in spec.env.wrappers):
        return _ATARI_SIDE * _ATARI_SIDE * frames, 1, False
    if name not in _SIZES or spec.env.wrappers:
        return 4 * obs_floats * frames, 4, True
    floats, actions = _SIZES[name]
    width = 8 if name.startswith(_DOUBLES) else 1 if name.startswith(_IMAGES) else 4
    return width * floats * frames, actions, False
