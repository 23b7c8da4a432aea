"""The thresholds of every health rule, with the shipped defaults: `keep.health` of a preset, and `health.toml`.

The numbers are those of the health guide's table of signals unless a field says otherwise; what was tuned, on which
runs, is in `docs/health.md`. Counts are updates, shares are 0..1, `u` is KL / (clip_range^2 / 2).
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from mission_tui.fleet.ranges import AboveZero, Share

Act = Literal["off", "notify", "checkpoint", "pause", "stop"]
"""What a rule may do once it is critical, each step including those before it; `off` does not judge at all."""

Level = Annotated[float, Meta(ge=-1e9, le=1e9)]
Count = Annotated[int, Meta(ge=1, le=1000)]


class RuleLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What every rule has: how far it may act."""

    act: Act = "notify"


class KlPersistentLimits(RuleLimits, frozen=True, kw_only=True):
    """u in `needed` of the last `window` updates."""

    warning: AboveZero = 2.0
    warning_leave: AboveZero = 1.5
    critical: AboveZero = 4.0
    critical_leave: AboveZero = 2.5
    needed: Count = 5
    window: Count = 8


class KlSpikeLimits(RuleLimits, frozen=True, kw_only=True):
    """A spike above `u` and `times_median` x the run's own median of `window`, and the fall within `within` after it.

    The fall counts from `fall_share` of the return's range or `fall_sigmas`, the larger; from `watch_share` of that on
    it is information.
    """

    u: AboveZero = 5.0
    times_median: AboveZero = 8.0
    window: Count = 50
    fall_share: Share = 0.15
    fall_sigmas: AboveZero = 6.0
    watch_share: Share = 0.5
    within: Count = 10


class KlCreepLimits(RuleLimits, frozen=True, kw_only=True):
    """One-sided CUSUM of log u against the run's own median of `reference` updates after warm-up, in its own sigmas.

    It counts once the median of the last `window` has reached `least_u`.
    """

    slack_sigmas: AboveZero = 0.5
    limit_sigmas: AboveZero = 8.0
    reference: Count = 30
    window: Count = 20
    least_u: AboveZero = 1.0


class PolicyFrozenLimits(RuleLimits, frozen=True, kw_only=True):
    """u below `u` for `updates`, or below `idle_u` with nothing clipped: then it is information only.

    Critical with KL below `critical_kl` and nothing clipped for `critical_updates`.
    """

    u: AboveZero = 0.02
    idle_u: AboveZero = 0.1
    updates: Count = 20
    critical_kl: AboveZero = 1e-6
    critical_updates: Count = 10
    best_share: Share = 0.9
    least_rate_share: Share = 0.05


class ClipFractionLimits(RuleLimits, frozen=True, kw_only=True):
    """Share of clipped transitions in `needed` of the last `window` updates."""

    warning: Share = 0.35
    warning_leave: Share = 0.3
    critical: Share = 0.5
    critical_leave: Share = 0.4
    needed: Count = 5
    window: Count = 8


class EntropyCollapseLimits(RuleLimits, frozen=True, kw_only=True):
    """Discrete actions: H / Hmax, falling by `fall_share` within `within_share` of the budget, or below `critical`.

    Only while the return is below `best_share` of the way from its start to its best.
    """

    fall_share: Share = 0.5
    within_share: Share = 0.1
    critical: Share = 0.02
    critical_updates: Count = 5
    best_share: Share = 0.9


class PolicyStdLimits(RuleLimits, frozen=True, kw_only=True):
    """Gaussian actions: worst component's standard deviation as a multiple of its start, for `updates`.

    Levels are left once they are passed back by a factor of `leave`.
    """

    warning_low: Share = 0.1
    warning_high: AboveZero = 2.0
    critical_low: Share = 0.02
    critical_high: AboveZero = 5.0
    updates: Count = 5
    leave: AboveZero = 1.25


class ActionsAtBoundLimits(RuleLimits, frozen=True, kw_only=True):
    """Share of action components at a bound, while the return is below `best_share` of the way to its best."""

    warning: Share = 0.5
    leave: Share = 0.4
    updates: Count = 20
    best_share: Share = 0.9


class ExplainedVarianceLimits(RuleLimits, frozen=True, kw_only=True):
    """Explained variance after a warm-up of `warm_up` updates or `warm_up_share` of the budget, the longer.

    `warm_up` is never more than a third of the budget.
    """

    warning: Level = 0.05
    leave: Level = 0.1
    needed: Count = 24
    window: Count = 30
    critical: Level = -0.5
    critical_updates: Count = 20
    warm_up: Count = 100
    warm_up_share: Share = 0.1
    best_share: Share = 0.9


class ValueLossLimits(RuleLimits, frozen=True, kw_only=True):
    """Value loss as a multiple of the run's own median; `fall_share` of its range makes a fall of the return."""

    times_median: AboveZero = 10.0
    leave: AboveZero = 5.0
    updates: Count = 5
    fall_share: Share = 0.4


class EntCoefLimits(RuleLimits, frozen=True, kw_only=True):
    """SAC's entropy coefficient as a multiple of its first value, for so many rows; that of PPO has no limits here."""

    warning: AboveZero = 10.0
    critical: AboveZero = 100.0
    leave: AboveZero = 5.0
    updates: Count = 5


class GradNormLimits(RuleLimits, frozen=True, kw_only=True):
    """Gradient norm before clipping, median of `updates`, as a multiple of `max_grad_norm`, while the return is poor.

    Rises are multiples of the run's own median: a warning below `critical` needs one too, and so does critical.
    """

    warning: AboveZero = 10.0
    updates: Count = 20
    critical: AboveZero = 100.0
    warning_rise: AboveZero = 3.0
    critical_rise: AboveZero = 10.0
    best_share: Share = 0.9


class RatioLimits(RuleLimits, frozen=True, kw_only=True):
    """Largest |r - 1| of the first minibatch, in which nothing has changed yet: fp32, and reduced precision.

    Of all minibatches, a ratio above `largest` in `needed` of the last `window` updates.
    """

    first: AboveZero = 1e-4
    first_reduced: AboveZero = 0.15
    largest: AboveZero = 3.0
    needed: Count = 5
    window: Count = 8


class DrawdownLimits(RuleLimits, frozen=True, kw_only=True):
    """Share of the gain (peak - base of the smoothed return) that is lost again."""

    ewma: Share = 0.2
    warning: Share = 0.5
    warning_updates: Count = 10
    critical: Share = 0.8
    critical_updates: Count = 20
    leave: Share = 0.15
    least_gain_sigmas: AboveZero = 8.0
    least_gain_share: Share = 0.1


class RewardOscillationLimits(RuleLimits, frozen=True, kw_only=True):
    """Swings of the return within `window` updates, each over `share` of its range and `errors` standard errors.

    It is over at `leave` swings and fewer.
    """

    swings: Count = 4
    leave: Count = 2
    window: Count = 100
    share: Share = 0.3
    errors: AboveZero = 4.0


class StallLimits(RuleLimits, frozen=True, kw_only=True):
    """Length up while the return is flat, looked at every `every` updates over `window`; or life at the step cap."""

    window: Count = 50
    every: Count = 5
    length_rise: Share = 0.2
    length_leave: Share = 0.1
    z: AboveZero = 2.33
    return_share: Share = 0.05
    looks: Count = 3
    critical_windows: Count = 3
    cap_share: Share = 0.95
    success_share: Share = 0.05
    after_share: Share = 0.3


class OutcomesLimits(RuleLimits, frozen=True, kw_only=True):
    """Idle endings over `bad_share`, `rise` more than `updates` ago by `z` sigmas; no win after `after_share`.

    It counts as misled when the return rose by `return_share` of its range meanwhile; below `leave` it is over.
    """

    bad_share: Share = 0.6
    leave: Share = 0.45
    rise: Share = 0.1
    z: AboveZero = 2.33
    updates: Count = 50
    return_share: Share = 0.05
    after_share: Share = 0.3


class ThroughputLimits(RuleLimits, frozen=True, kw_only=True):
    """Steps per second as a share of the run's own median over `window` updates, of which `fewest` must be known.

    Slow are `updates` in a row that together took `least_s` seconds, or `machine_s` where both phases are slow alike,
    as on a machine that is busy with something else; it is over once `leave` is reached again.
    """

    warning: Share = 0.6
    leave: Share = 0.75
    updates: Count = 5
    least_s: AboveZero = 1.0
    machine_s: AboveZero = 30.0
    window: Count = 200
    fewest: Count = 10


class HangLimits(RuleLimits, frozen=True, kw_only=True):
    """Silence of a living trainer: the longer of `times_median` median updates and `least_s` seconds.

    Until three updates have shown what is normal, `first_s`: large first rollouts on a busy machine.
    """

    times_median: AboveZero = 10.0
    least_s: AboveZero = 120.0
    first_s: AboveZero = 900.0


class NanLimits(RuleLimits, frozen=True, kw_only=True):
    """A number that is not finite. The trainer ends by itself before it saves; `stop` says so."""

    act: Act = "stop"


class CheckpointAgeLimits(RuleLimits, frozen=True, kw_only=True):
    """Training since the newest verified checkpoint, beyond one update, as a multiple of the checkpoint interval.

    A checkpoint that could not be saved is a warning at once, three in a row are critical.
    """

    warning_times: AboveZero = 2.0
    critical_times: AboveZero = 3.0


class GpuIdleLimits(RuleLimits, frozen=True, kw_only=True):
    """Share of a GPU that a run keeps busy, mean of `looks` of 5 s, while `rollout` of an update is its rollout."""

    busy: Share = 0.1
    leave: Share = 0.15
    rollout: Share = 0.8
    looks: Count = 60


class ThreadContentionLimits(RuleLimits, frozen=True, kw_only=True):
    """Of a command: share of the time that its threads wait for a core, in `needed` of the last `window` looks of 5 s.

    Only while others keep `others` cores busy, and where its speed is not known to be above `slow` of what it had.
    """

    waiting: Share = 0.4
    leave: Share = 0.3
    others: AboveZero = 0.5
    slow: Share = 0.6
    needed: Count = 5
    window: Count = 8


class OutOfMemoryLimits(RuleLimits, frozen=True, kw_only=True):
    """It is told when an attempt has ended, and nothing can be done to it any more: `off` alone changes anything."""


class PlateauLimits(RuleLimits, frozen=True, kw_only=True):
    """No better return within `updates` updates; information only."""

    updates: Count = 200
    share: Share = 0.02


class ResumeProbeLimits(RuleLimits, frozen=True, kw_only=True):
    """The first `updates` of a resumed attempt: u above `u` or a clip fraction above it in `needed` of `window`.

    Where as many went that far before the checkpoint, both begin at `rise` times the u of then. The return may be lower
    by `sigmas` standard errors and by `share` of what was recorded, the larger; the entropy may differ by
    `entropy_share`.
    """

    updates: Count = 20
    u: AboveZero = 2.0
    clip_fraction: Share = 0.35
    needed: Count = 3
    window: Count = 5
    rise: AboveZero = 1.5
    sigmas: AboveZero = 3.0
    share: Share = 0.05
    entropy_share: Share = 0.5


class AfterChangeLimits(RuleLimits, frozen=True, kw_only=True):
    """What is lost of the return's range, at least `sigmas` of its noise, since settings were changed while it trains.

    `entropy` is the ratio below which there is no choice left. What begins later than `within` updates after warm-up
    is not put down to the change.
    """

    warning: Share = 0.25
    critical: Share = 0.5
    sigmas: AboveZero = 6.0
    entropy: Share = 0.02
    within: Count = 50


def _written(name: str) -> str:
    """Rules are written by their ids, settings as SB3 and presets write theirs."""
    return name if name in ("on_event", "profile", "apprise") else name.replace("_", "-")


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, rename=_written):
    """Every rule's limits by rule id."""

    after_change: AfterChangeLimits = AfterChangeLimits()
    kl_persistent: KlPersistentLimits = KlPersistentLimits()
    kl_spike: KlSpikeLimits = KlSpikeLimits()
    kl_creep: KlCreepLimits = KlCreepLimits()
    policy_frozen: PolicyFrozenLimits = PolicyFrozenLimits()
    clip_fraction: ClipFractionLimits = ClipFractionLimits()
    entropy_collapse: EntropyCollapseLimits = EntropyCollapseLimits()
    policy_std: PolicyStdLimits = PolicyStdLimits()
    actions_at_bound: ActionsAtBoundLimits = ActionsAtBoundLimits()
    explained_variance: ExplainedVarianceLimits = ExplainedVarianceLimits()
    value_loss: ValueLossLimits = ValueLossLimits()
    ent_coef: EntCoefLimits = EntCoefLimits()
    grad_norm: GradNormLimits = GradNormLimits()
    ratio: RatioLimits = RatioLimits()
    drawdown: DrawdownLimits = DrawdownLimits()
    reward_oscillation: RewardOscillationLimits = RewardOscillationLimits()
    stall: StallLimits = StallLimits()
    outcomes: OutcomesLimits = OutcomesLimits()
    throughput: ThroughputLimits = ThroughputLimits()
    hang: HangLimits = HangLimits()
    nan: NanLimits = NanLimits()
    checkpoint_age: CheckpointAgeLimits = CheckpointAgeLimits()
    plateau: PlateauLimits = PlateauLimits()
    resume_probe: ResumeProbeLimits = ResumeProbeLimits()
    thread_contention: ThreadContentionLimits = ThreadContentionLimits()
    gpu_idle: GpuIdleLimits = GpuIdleLimits()
    out_of_memory: OutOfMemoryLimits = OutOfMemoryLimits()


class HealthKeep(Limits, frozen=True, kw_only=True, rename=_written):
    """`keep.health`: the limits, the profile that was laid under them, and who is told.

    `on_event` is a shell command that gets the finding as JSON on its standard input; `apprise` sends to whatever the
    user's own apprise configuration names.
    """

    profile: Literal["auto", "default", "narrow-clip", "wide-clip", "large-batch"] = "auto"
    on_event: str | None = None
    apprise: bool = False
