"""How far an update moved the policy, measured against PPO's own trust region; what moved it too far, and the one
change of settings that would move it less, so that the same trouble gets the same advice from every rule.

u = KL / (clip_range^2 / 2), with the clip range of that update: at clip range 0.2, u = 1 is a KL of 0.02. Healthy runs
have a median u of 0.2 to 1.2 and a 95th percentile of at most 2.6 (health guide, section 2).
"""

from __future__ import annotations

import math
from statistics import NormalDist

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.health.doing_well import Success
from mission_tui.fleet.health.phrases import halved_learning_rate, learning_rate_of, pressure_of, rounded
from mission_tui.fleet.health.rule import Hysteresis, Row, RuleContext
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.specs.sizes import EXTREME_RATE, REFERENCE_LEARNING_RATE, USUAL_PRESSURE, is_extreme
from mission_tui.fleet.specs.spec import Schedule

SMALLEST_CLIP, LARGEST_CLIP = 0.05, 0.5
"""A clip range annealed to nothing would make any KL infinite, and one that means "no clipping" every policy frozen."""
USUAL_CLIP, WIDEST_CLIP = 0.2, 1.0
"""Published settings of PPO clip at 0.1 to 0.4; beyond 1 a probability may become 0 and nothing holds it."""
NARROWEST_CLIP = 0.02
"""A clip range that starts below it holds the policy where it is; one that decays to there is a schedule."""
SAFE_TIMES = 4.0
"""The u beyond which an update has gone too far by any profile: 4 x the safe KL (health guide, section 2)."""
HIGH_PRESSURE = 2.0
"""Update pressure from which on the settings themselves explain large steps."""
MANY_EPOCHS = 8
LOWER_RATE = "lower the learning rate to a usual one"
LOWER_FOR_STEPS = "lower the learning rate to what so many gradient steps can bear"
TARGET_RADII = 1.5
"""SB3 ends an update beyond 1.5 x `target_kl`; the health guide's range for it is 1 to 1.5 radii."""
TINY_TARGET = 0.1
"""Of the KL at the edge of the clip range: a `target_kl` below it ends updates that are no danger to the policy."""
DECAYED = 0.5
AT_ONCE = 4.0
"""A rate that was this many times the level below which it is spent, one update ago, has not decayed to there."""
CHANGED = 1.5
WATCHED = (
    ("train/learning_rate", "learning rate"),
    ("policy/std", "standard deviation of the actions"),
    ("train/std", "standard deviation of the actions"),
    ("policy/entropy_ratio", "entropy as a share of its maximum"),
    ("train/grad_norm", "gradient norm"),
)


def u_of(row: Row, settings: Settings) -> float | None:
    """The u of `row`'s update; None when the row says no KL."""
    return _u(row, radius_of(row, settings))


def radius_of(row: Row, settings: Settings) -> float:
    """The KL at the edge of the clip range: clip_range^2 / 2, with a clip range of at least 0.05 and at most 0.5."""
    return _radius(row.metrics.get("train/clip_range", settings.clip_range))


class StepScale:
    """What the size of one attempt's steps is measured by: its clip range, and that of its start where it has narrowed.

    A clip range that decays to 0 clips ever more of ever smaller steps, and their KL is ever more of its radius. That
    is its schedule and no pressure: the question is what the clip range of the start would have said of these steps.
    """

    def __init__(self, settings: Settings) -> None:
        self._start = settings.clip_range if settings.clip_range_decays else 0.0
        self._now = settings.clip_range
        self._row: Row | None = None
        self._u: float | None = None

    @classmethod
    def shared(cls, context: RuleContext) -> StepScale:
        """The one of all rules of `context`."""
        return context.shared(cls, lambda: cls(context.settings))

    def update(self, row: Row) -> None:
        """Take in one update. The same row again is passed over."""
        if row is self._row:
            return
        clip = row.metrics.get("train/clip_range")
        if clip is not None and math.isfinite(clip):
            self._start, self._now = self._start or clip, clip
        self._row, self._u = row, _u(row, self.radius)

    @property
    def clip_range(self) -> float:
        """The clip range that counts."""
        return max(self._start, self._now)

    @property
    def narrowed(self) -> bool:
        """Whether the clip range is narrower than at its start."""
        return self._now < self._start

    @property
    def radius(self) -> float:
        """The KL at the edge of it."""
        return _radius(self.clip_range)

    def u(self, row: Row) -> float | None:
        """The u of `row`'s update; None when the row says no KL."""
        return self._u if row is self._row else _u(row, self.radius)

    def clipped(self, share: float) -> float:
        """The share that would have been clipped, of steps of which the present clip range clips `share`."""
        if not self.narrowed or not 0.0 < share < 1.0:
            return share
        return clipped_of_longer(share, self._now / self.clip_range)

    def clipped_of(self, kl: float) -> float:
        """The share that the present clip range would clip of steps of such a KL, their log-ratios taken as normal."""
        deviation = math.sqrt(2.0 * kl) if 0.0 < kl < math.inf else 0.0
        return 2.0 * NormalDist().cdf(-self._now / deviation) if deviation and math.isfinite(self._now) else 0.0


def clipped_of_longer(share: float, times: float) -> float:
    """The share that would be clipped if the steps of which `share` is clipped were `times` as long.

    Log-ratios are taken as normal, so that the share tells their deviation.
    """
    # By the lower tail: near 1 the upper one would be rounded to certainty.
    tail = share / 2.0
    if not (0.0 < tail < 0.5 and times > 0.0):
        return 0.0 if tail < 0.5 else share
    return 2.0 * NormalDist().cdf(NormalDist().inv_cdf(tail) / times)


class RateCourse:
    """How one attempt's learning rate has gone: a gradual decay is a schedule, a rate that is gone at once was lost.

    `first` is the first rate, 0 while unknown.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.first = settings.starting_rate or 0.0
        self.rate: float | None = None
        self._cut_off = False

    def update(self, row: Row, spent_share: float) -> bool:
        """Take in one update; whether the rate has decayed to below `spent_share` of the first one."""
        rate = learning_rate_of(row, self._settings)
        if rate is None or self._is_constant:
            return False
        self.first = self.first or rate
        before, self.rate = self.rate if self.rate is not None else rate, rate
        spent = spent_share * self.first
        if rate >= spent:
            self._cut_off = False
        elif before >= spent:
            self._cut_off = before > AT_ONCE * spent
        return rate < spent and not self._cut_off

    @property
    def decays(self) -> bool:
        """Whether it has come down bit by bit, as a schedule has it, to less than half."""
        return self.rate is not None and not self._cut_off and self.rate < DECAYED * self.first

    @property
    def share_left(self) -> float:
        """What a schedule has left of the first rate; 1 where none takes it down."""
        if self.rate is None or self._cut_off or not 0.0 < self.rate < self.first:
            return 1.0
        return self.rate / self.first

    @property
    def _is_constant(self) -> bool:
        return isinstance(self._settings.learning_rate, float | int)


class StepGravity:
    """How bad updates that go too far are, which their size alone does not say: by what the return does meanwhile."""

    def __init__(self, context: RuleContext, window: int) -> None:
        self._returns = context.returns
        self._success = Success.shared(context)
        self._stagnant = Hysteresis(1, window)

    def update(self, row: Row) -> None:
        """Take in one update."""
        self._success.update(row)
        improving = self._returns.improving
        if improving is not None:
            self._stagnant.update(over=not improving, calm=improving)

    def of(self, *, very_large: bool) -> Severity:
        """Information while the return rises, stays near its best, or holds still at it with nothing left to be gained.

        Being near it does not excuse very large ones: a return that sways there may be on its way down. They are
        critical only where half of what was gained, or all that could have been, is not there. A task that its
        environment calls solved at once has no way up by which to tell its best.
        """
        if self._success.rises_now or self._success.at_ceiling:
            return "info"
        if very_large:
            return "critical" if self._stagnant.on and not self._success.holds else "warning"
        well = self._success.solved or self._success.near_best
        return "warning" if self._returns.warm and not well else "info"


def _u(row: Row, radius: float) -> float | None:
    kl = row.metrics.get("train/approx_kl")
    return None if kl is None or math.isnan(kl) else kl / radius


def _radius(clip: float) -> float:
    if not clip > SMALLEST_CLIP:
        clip = SMALLEST_CLIP  # NaN too, which passes no comparison
    elif clip > LARGEST_CLIP:
        clip = LARGEST_CLIP
    return clip * clip / 2.0


def smaller_update_advice(settings: Settings, row: Row) -> tuple[str, tuple[str, ...]]:
    """One advice and its assignments: a usual rate where it is far from that, a usual clip range where that clips
    nothing, else a `target_kl`, fewer epochs where there is one and they are many, else half the rate.

    Half as many epochs, or a `target_kl`, cure nothing where the rate is a hundred times too high. Where it is not,
    half as many epochs made every training worse that followed it (docs/health/advice.md).
    """
    if (usual := far_too_high(settings, row)) is not None:
        return usual
    if (clip := _clips_nothing(settings, row)) is not None:
        return f"set a usual clip range: one of {clip:g} holds no update back", (f"ppo.clip_range={USUAL_CLIP:g}",)
    rate = learning_rate_of(row, settings)
    pressure, epochs = pressure_of(settings, rate), settings.n_epochs
    if settings.target_kl is None:
        target = TARGET_RADII * radius_of(row, settings)
        return "end an update early, once it has moved the policy far enough", (f"ppo.target_kl={target:.2g}",)
    if pressure is not None and pressure >= HIGH_PRESSURE and epochs is not None and epochs >= MANY_EPOCHS:
        return "go through each rollout half as often", (f"ppo.n_epochs={epochs // 2}",)
    return "halve the learning rate", halved_learning_rate(settings, row)


def holds_all_back(scale: StepScale) -> tuple[str, str, tuple[str, ...]] | None:
    """Cause, advice and assignments where the clip range has always been far narrower than any that is used."""
    clip = scale.clip_range
    if not 0.0 < clip < NARROWEST_CLIP:
        return None
    cause = f"a clip range of {clip:.2g} ends what a transition teaches once its probability has changed by {clip:.2%}"
    return cause, "set a usual clip range", (f"ppo.clip_range={USUAL_CLIP:g}",)


def is_tiny_target(settings: Settings, row: Row) -> bool:
    """Whether `target_kl` ends updates long before they could do harm."""
    return settings.target_kl is not None and settings.target_kl < TINY_TARGET * radius_of(row, settings)


def _clips_nothing(settings: Settings, row: Row) -> float | None:
    """The clip range where it is far wider than any that is used; else None."""
    clip = row.metrics.get("train/clip_range", settings.clip_range)
    return clip if clip > WIDEST_CLIP else None


def far_too_high(settings: Settings, row: Row | None) -> tuple[str, tuple[str, ...]] | None:
    """Advice and assignments where the learning rate is one that nobody learns with; None elsewhere.

    A log that does not tell how many gradient steps it is used for may still show one beyond all published settings.
    """
    rate = learning_rate_of(row, settings)
    pressure = pressure_of(settings, rate)
    if pressure is None and rate is not None and EXTREME_RATE <= rate < math.inf:
        return LOWER_RATE, (f"ppo.learning_rate={REFERENCE_LEARNING_RATE:g}",)
    if pressure is None or rate is None or not is_extreme(pressure, rate):
        return None
    return LOWER_FOR_STEPS, _usual_rate(settings, rate, pressure)


def _usual_rate(settings: Settings, rate: float, pressure: float) -> tuple[str, ...]:
    """The assignment of a rate, or of a schedule, that presses as usual where `rate` has `pressure`."""
    planned, times = settings.learning_rate, USUAL_PRESSURE / pressure
    if isinstance(planned, Schedule):
        start, end = planned.start * times, planned.end * times
        return (f'ppo.learning_rate={{ start = {start:.2g}, end = {end:.2g}, kind = "{planned.kind}" }}',)
    return (f"ppo.learning_rate={rate * times:.2g}",)


def changes_between(before: Row, after: Row) -> str:
    """What changed by more than half between two updates and bears on how far one goes; empty when nothing did."""
    changes: dict[str, str] = {}
    for tag, name in WATCHED:
        old, new = before.metrics.get(tag), after.metrics.get(tag)
        if old is None or new is None or not (0.0 < old < math.inf and 0.0 < new < math.inf):
            continue
        if max(old, new) > CHANGED * min(old, new):
            changes.setdefault(name, f"{name} {rounded(old)} -> {rounded(new)}")
    return ", ".join(changes.values())
