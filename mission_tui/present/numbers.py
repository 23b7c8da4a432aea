"""How numbers are written, and metrics and costs called, on the screen, by the command line and in reports: short,
comparable at a glance, and a dash for what is not known (never 0).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mission_tui.fleet.events.metrics import Metric, number
from mission_tui.fleet.specs.sizes import replay_size
from mission_tui.fleet.statistics import Quartiles
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.snapshot import HostMeters

if TYPE_CHECKING:
    from mission_tui.fleet.capacity.demand import Cost, ReferenceSpeed
    from mission_tui.fleet.specs.spec import Spec

DASH = "-"

TITLES: Mapping[str, str] = {
    "rollout/ep_rew_mean": "return",
    "rollout/ep_len_mean": "episode length",
    "steps_per_s": "steps/s",
    "train/approx_kl": "approx KL",
    "train/clip_fraction": "clip fraction",
    "policy/entropy_ratio": "entropy / max",
    "policy/std": "action std",
    "train/explained_variance": "explained variance",
    "train/learning_rate": "learning rate",
    "train/value_loss": "value loss",
    "train/grad_norm": "gradient norm",
    "train/entropy_loss": "entropy loss",
    "train/clip_range": "clip range",
    "train/approx_kl_all": "KL, all batches",
    "train/policy_gradient_loss": "policy loss",
    "train/loss": "loss, last batch",
    "train/grad_norm_max": "gradient, most",
    "train/grad_clipped_share": "gradients clipped",
    "train/ratio_first": "first ratio - 1",
    "train/ratio_max": "greatest ratio",
    "train/n_epochs_done": "epochs done",
    # Epochs with PPO and A2C, gradient steps with the others.
    "train/n_updates": "n_updates of SB3",
    "train/actor_loss": "actor loss",
    "train/critic_loss": "critic loss",
    "train/ent_coef": "entropy coefficient",
    "train/ent_coef_loss": "entropy coef. loss",
    "rollout/exploration_rate": "exploration rate",
}

_LONG: Mapping[str, str] = {
    "rollout/ep_rew_mean": "mean episode return",
    "rollout/success_rate": "success rate",
    "eval/mean_reward": "mean evaluation return",
    "eval/success_rate": "evaluation success rate",
    "steps_per_s": "speed",
    "rollout_s": "time of a rollout",
    "update_s": "time of an update",
    "env_s": "time in the environments",
    "train/approx_kl": "approximate KL",
    "policy/entropy_ratio": "entropy, share of the greatest",
    "policy/std": "standard deviation of actions",
}
_UNITS: Mapping[str, str] = {
    "rollout/ep_len_mean": "steps",
    "steps_per_s": "timesteps/s",
    "rollout_s": "s",
    "update_s": "s",
    "env_s": "s",
    "train/approx_kl": "nats",
    "train/approx_kl_all": "nats",
    "train/entropy_loss": "nats",
}

_DIFFERING = 3


def count(value: float | None) -> str:
    """A whole number with thousands separated: `1,204`."""
    return DASH if value is None else f"{value:z,.0f}"


def compact(value: float | None) -> str:
    """A number of steps in at most five characters: `960`, `11.5M`, `50M`."""
    if value is None or not math.isfinite(value):
        return DASH
    for factor, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor * 0.9995:
            scaled = value / factor
            return f"{scaled:.1f}".removesuffix(".0") + suffix if scaled < 99.95 else f"{scaled:.0f}{suffix}"
    return f"{value:.0f}"


def rate(per_second: float | None) -> str:
    """Steps per second in at most six characters: `1,412`, `154k`."""
    if per_second is None or not math.isfinite(per_second):
        return DASH
    return f"{per_second:,.0f}" if per_second < 99_999.5 else compact(per_second)


def percent(share: float | None) -> str:
    """A share of 0..1 as a whole percentage; only all reads 100%, and only nothing reads 0%."""
    if share is None or not math.isfinite(share):
        return DASH
    if 0 < share < 0.01:
        return "<1%"
    # 0.29 * 100 is 28.999999999999996.
    return f"{100 if share >= 1 else min(99, math.floor(share * 100 + 1e-9))}%"


def share_words(ends: object) -> str:
    """The interval of a share: `79% to 92%`; empty for what is none, as in the file of an earlier version."""
    match ends:
        case [int() | float() as low, int() | float() as high]:
            return f"{percent(low)} to {percent(high)}"
    return ""


def spread_words(mean: str, std: str, episodes: object) -> str:
    """`12.4 ± 1.9`; the mean alone of one episode, which has no deviation."""
    return mean if episodes == 1 else f"{mean} ± {std}"


def no_interval_words(episodes: int) -> str:
    """Why so many episodes have no interval of their mean."""
    # Only once it is asked: the first picture loads this module, and needs no statistics.
    from mission_tui.fleet.statistics.intervals import LEAST_VALUES

    if episodes < LEAST_VALUES:
        return f"no interval: that needs {LEAST_VALUES} episodes"
    return f"no interval: all {episodes} episodes came to the same, so nothing is known of how others would scatter"


def in_unit(value: float | None, unit: str) -> str:
    """What was measured, in whole units: `72W`, `190%`; more than 100 % of a processor is more than one core."""
    return DASH if value is None else f"{value:.0f}{unit}"


def size(size_bytes: float | None) -> str:
    """Bytes in powers of 1024: `512K`, `5.1G`, `41G`."""
    if size_bytes is None:
        return DASH
    value = float(size_bytes)
    for suffix in "BKMG":
        if value < 999.5:
            return f"{value:.1f}{suffix}" if value < 9.95 and suffix != "B" else f"{value:.0f}{suffix}"
        value /= 1024
    return f"{value:.1f}T"


def part_of(used: int | None, total: int | None) -> str:
    """Bytes in use and all of them: `5.1/41G`, `512G/2.0T`; a dash where neither is known."""
    if used is None and total is None:
        return DASH
    in_use, whole = size(used), size(total)
    return f"{in_use.removesuffix('G') if whole.endswith('G') else in_use}/{whole}"


def duration(seconds: float | None) -> str:
    """Seconds in the two units that matter: `42s`, `3m20`, `5h40`, `9d04`."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return DASH
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}"


MINUTE_S = 60.0
_UNITS_S = ((100.0, 1.0, "s"), (100 * 60.0, 60.0, "m"), (100 * 3600.0, 3600.0, "h"), (math.inf, 86_400.0, "d"))


def duration_range(low: float | None, high: float | None, *, finest_s: float = 1.0) -> str:
    """Two durations in one unit, in at most seven characters: `3-5m`, `12-15h`; as one where they nearly agree.

    Never nothing at all: below `finest_s`, a second or a minute, they are `<1s` or `<1m`.
    """
    if low is None or high is None or not math.isfinite(high):
        return DASH
    if high < finest_s:
        return "<1s" if finest_s < MINUTE_S else "<1m"
    if high <= 1.1 * low or high < 2.0:
        return duration((low + high) / 2)
    units = (it for it in _UNITS_S if it[1] >= finest_s)
    unit_s, suffix = next((unit_s, suffix) for most, unit_s, suffix in units if high < most)
    least, most = math.floor(low / unit_s), math.ceil(high / unit_s)
    if least == 0 or most > 999:
        return f"<{min(most, 9999)}{suffix}"
    return f"{least}-{most}{suffix}"


def split_second(seconds: float | None) -> str:
    """The length of a phase: two digits below ten seconds, else as `duration`."""
    if seconds is None or not math.isfinite(seconds):
        return DASH
    return f"{seconds:.2g}s" if seconds < 9.95 else duration(seconds)


def step_time(seconds: float) -> str:
    """Of one step of environments: `4.2 ms`, `1.5 s`."""
    return (
        f"{1000 * seconds:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s" if seconds < 999.5 else duration(seconds)
    )


def until_full(host: HostMeters) -> str:
    """In what time the disk will be full, as a range: `9-11h`, `5h10 or later`; empty where that is not known.

    Of a range wider than its unit the near end is said, which is what counts: `19h to 111d` is not `<111d`.
    """
    if host.disk_full_in_s is None:
        return ""
    if host.disk_full_low_s is None:
        return coarse_duration(host.disk_full_in_s)
    low, high = host.disk_full_low_s, host.disk_full_high_s
    if high is None or (low >= MINUTE_S and duration_range(low, high, finest_s=MINUTE_S).startswith("<")):
        return f"{coarse_duration(low)} or later"
    return duration_range(low, high, finest_s=MINUTE_S)


def coarse_duration(seconds: float | None) -> str:
    """A forecast, of which no seconds are known: as `duration` from a minute on, else `<1m`."""
    return duration_range(seconds, seconds, finest_s=MINUTE_S)


def due(seconds: float) -> str:
    """When something comes: `in 42s`, or `now`."""
    return f"in {duration(seconds)}" if round(seconds) > 0 else "now"


_DAY_S = 86_400
_AGO = (
    (700 * _DAY_S, 365 * _DAY_S, "y"),
    (100 * _DAY_S, 7 * _DAY_S, "w"),
    (_DAY_S, _DAY_S, "d"),
    (3600, 3600, "h"),
    (60, 60, "m"),
)
"""From how many seconds on which unit is said, and its length."""


def ago(t: float | None, now: float) -> str:
    """How long before `now` the moment `t` was, in one unit and at most seven cells: `12m ago`."""
    if t is None:
        return DASH
    seconds = max(0.0, now - t)
    for least, length, unit in _AGO:
        if seconds >= least:
            return f"{int(seconds // length)}{unit} ago"
    return f"{int(seconds)}s ago"


def clock(t: float, now: float) -> str:
    """The local time of day of unix time `t`; with the date once that is half a day before `now`: `21 Nov 03:12`."""
    written = "%H:%M" if abs(now - t) < 43_200 else "%d %b %H:%M"
    return time.strftime(written, time.localtime(t))


def seeds(n: int, of: int, live: int) -> str:
    """How many of a group's runs have a value, and how many of them live: `3`, `3, 2 live`, `2 of 3, 1 live`."""
    return (str(n) if n == of else f"{n} of {of}") + (f", {live} live" if live else "")


def group_words(middle: Quartiles | None, runs: int, live: int) -> str:
    """What is said of a group wherever there is room for a sentence: `median 12, IQR 11 to 16, n 3, 2 live`."""
    if middle is None:
        return f"n {seeds(0, runs, live)}"
    span = f"IQR {reading(middle.first)} to {reading(middle.third)}"
    return f"median {reading(middle.median)}, {span}, n {seeds(middle.n, middle.of, live)}"


def measure(value: float | str | None) -> str:
    """Four significant digits, as tables have room for, and all of a whole number below a million: `12,345`;
    non-finite values by name.
    """
    if value is None or isinstance(value, str):
        return value or DASH
    return f"{value:,.0f}" if 9_999.5 <= abs(value) < 999_999.5 else f"{value:z.4g}"


def reading(metric: Metric | None) -> str:
    """A metric in about three significant digits: `12.4`, `0.031`, `3e-4`, `1.23e6`, `nan`."""
    value = number(metric)
    if value is None:
        return DASH
    if not math.isfinite(value):
        return str(value)
    magnitude = abs(value)
    if magnitude >= 999_999.5:
        return _short_power(f"{value:.2e}")
    if magnitude >= 999.5:
        return f"{value:,.0f}"
    if magnitude >= 99.95 or (magnitude >= 9.995 and value == int(value)):
        return f"{value:.0f}"
    if magnitude >= 9.995:
        return f"{value:.1f}"
    if magnitude >= 0.9995:
        return f"{value:.2f}"
    if magnitude >= 0.00995:
        return f"{value:.3f}"
    return "0" if value == 0 else _short_power(f"{value:.1e}").replace(".0e", "e")


def _short_power(words: str) -> str:
    return words.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def reading_in(metric: Metric | None, width: int) -> str:
    """`reading` in at most `width` cells where fewer digits bring that about: `-123k`, `-1.2e12`. One that is cut is
    another number.
    """
    words, value = reading(metric), number(metric)
    if len(words) <= width or value is None or not math.isfinite(value):
        return words
    sign, magnitude = "-" * (value < 0), abs(value)
    briefer = [sign + compact(magnitude)] if 999.5 <= magnitude < 1e12 else []
    briefer += [_short_power(f"{value:.{digits}e}") for digits in (1, 0)]
    return next((it for it in briefer if len(it) <= width), words)


_SHARES = (
    "train/approx_kl",
    "train/approx_kl_all",
    "train/clip_fraction",
    "train/explained_variance",
    "policy/entropy_ratio",
)
"""Metrics worked out in float32 beside numbers of about 1."""
_NOISE = 2.0**-23


def reading_of(tag: str, metric: Metric | None) -> str:
    """`reading` of the metric `tag`; 0 where it is less than its arithmetic can tell from 0: a KL of -8.8e-17."""
    value = number(metric)
    return "0" if tag in _SHARES and value is not None and abs(value) < _NOISE else reading(metric)


def metric_title(tag: str) -> str:
    """What people call the metric; an unknown tag is its own title."""
    return TITLES.get(tag, tag)


def axis_name(tag: str) -> str:
    """`mean episode return`, `episode length (steps)`: a number without a unit has none, an unknown tag is its own."""
    name = _LONG.get(tag) or TITLES.get(tag) or clean(tag, 60)
    return f"{name} ({_UNITS[tag]})" if tag in _UNITS else name


def replay_words(spec: Spec) -> str:
    """What a replay buffer takes in memory and in checkpoints; "" for an algorithm without one."""
    size_ = replay_size(spec)
    if size_ is None:
        return ""
    assumed = " if its observations are like MissionGym's" if size_.assumed else ""
    held = f"replay buffer {size(size_.full_bytes)} once full{assumed}"
    if not size_.kept_bytes:
        return f"{held}, not in checkpoints, so no resume is exact"
    return f"{held}, {size(size_.checkpoint_bytes)} in each checkpoint, {size(size_.kept_bytes)} in {size_.kept}"


def all_at_once(costs: Sequence[Cost]) -> str:
    """Memory, GPU memory and cores that all of them take together."""
    vram = [cost.vram_bytes for cost in costs if cost.vram_bytes is not None]
    gpu = f", {size(sum(vram))} of GPU memory" if vram else ""
    ram, cores = size(sum(cost.ram_bytes for cost in costs)), sum(cost.cores for cost in costs)
    return f"all {len(costs)} at once: {ram} of memory{gpu}, {cores} cores"


def differing_words(pace: ReferenceSpeed) -> str:
    """The settings in which the run of this pace was another one, the first few; empty where none differs."""
    others = len(pace.differs) - _DIFFERING
    return ", ".join(pace.differs[:_DIFFERING]) + (f" and {others} more" if others > 0 else "")
