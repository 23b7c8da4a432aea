"""A `health.toml`, checked: limits by rule, and profiles, which are limits for a kind of training.

Over the defaults lie the user's file, then the profile that suits the training, then what the preset and `--set` say.
Limits of one rule may not contradict each other: levels are left below where they are entered, critical is beyond
warning, and no window is shorter than what it must hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field

from mission_tui.fleet.specs.schema import Place, described, fit_table, unknown_key
from mission_tui.fleet.specs.spec import Schedule, Spec, rollout_size
from mission_tui.fleet.specs.thresholds import HealthKeep, Limits

Profile = Literal["default", "narrow-clip", "wide-clip", "large-batch"]
PROFILES = ("narrow-clip", "wide-clip", "large-batch")

_SCALED_ROLLOUT = 32_768
_LARGE_ROLLOUT = 131_072
_NARROW_CLIP, _WIDE_CLIP = 0.1, 0.25
_AT_MOST = {
    "after-change": (("warning", "critical"),),
    "kl-persistent": (
        ("warning_leave", "warning"),
        ("critical_leave", "critical"),
        ("warning", "critical"),
        ("needed", "window"),
    ),
    "policy-frozen": (("u", "idle_u"),),
    "clip-fraction": (
        ("warning_leave", "warning"),
        ("critical_leave", "critical"),
        ("warning", "critical"),
        ("needed", "window"),
    ),
    "policy-std": (("critical_low", "warning_low"), ("warning_high", "critical_high")),
    "actions-at-bound": (("leave", "warning"),),
    "explained-variance": (("critical", "warning"), ("warning", "leave"), ("needed", "window")),
    "value-loss": (("leave", "times_median"),),
    "ent-coef": (("leave", "warning"), ("warning", "critical")),
    "gpu-idle": (("busy", "leave"),),
    "grad-norm": (("warning", "critical"),),
    "ratio": (("first", "first_reduced"), ("needed", "window")),
    "drawdown": (("leave", "warning"), ("warning", "critical")),
    "reward-oscillation": (("leave", "swings"), ("swings", "window")),
    "stall": (("length_leave", "length_rise"), ("every", "window")),
    "outcomes": (("leave", "bad_share"),),
    "throughput": (("warning", "leave"), ("fewest", "window")),
}
"""By rule, pairs of its fields of which the first must not be above the second."""


class HealthFile(Struct, frozen=True):
    """Fitted tables: `keep` as in `keep.health` of a preset, `profiles` by name."""

    path: Path
    keep: Mapping[str, object] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """The file's top level, for messages."""
        return Place(str(self.path))

    def limits(self, profile: Profile = "default") -> HealthKeep:
        """The defaults under this file's limits, under those of `profile`."""
        return msgspec.convert(_overlay(self.keep, self.profiles.get(profile, {})), HealthKeep)


def read_health(table: Mapping[str, object], path: Path) -> HealthFile:
    """The health file in `table`, parsed from the file at `path`.

    Raises `PresetError` naming file, key and the nearest valid name or value; limits that contradict each other are
    refused here, whether they do so alone or with a profile.
    """
    place = Place(str(path))
    file = HealthFile(
        path=path,
        keep=fit_table(described(HealthKeep), {name: it for name, it in table.items() if name != "profile"}, place),
        profiles=_profiles(table.get("profile", {}), place.at("profile")),
    )
    for profile in ("default", *file.profiles):
        for sentence in contradictions(file.limits(profile), "" if profile == "default" else f"profile.{profile}."):  # type: ignore[arg-type]
            raise place.refuse(sentence)
    return file


def profile_of(spec: Spec) -> Profile:
    """The profile of `spec`: the one it names, else the one that suits it.

    `large-batch` from 131,072 transitions a rollout, or from 32,768 where auto-scaling keeps their minibatches small
    (source 004's 256 x 128); else by the clip range at the start, `narrow-clip` below 0.1 and `wide-clip` above 0.25.
    """
    asked = spec.keep.health.profile
    if asked != "auto":
        return asked
    clip = spec.ppo.clip_range
    start = clip.start if isinstance(clip, Schedule) else clip
    return profile_for(rollout_size(spec), start, auto_scale=spec.run.auto_scale)


def profile_for(rollout: int | None, clip_range: float, *, auto_scale: bool = False) -> Profile:
    """The profile for rollouts of so many transitions (None is not known) and a clip range that starts there."""
    if rollout is not None and rollout >= (_SCALED_ROLLOUT if auto_scale else _LARGE_ROLLOUT):
        return "large-batch"
    if clip_range < _NARROW_CLIP:
        return "narrow-clip"
    return "wide-clip" if clip_range > _WIDE_CLIP else "default"


def layers_below(files: Sequence[HealthFile], profile: Profile) -> Iterator[Mapping[str, object]]:
    """What lies under a preset's own `keep.health`, from the top down; of `files` the first is the nearest.

    What says a default again is left out: it would be written into every spec.
    """
    yield from (file.profiles[profile] for file in files if profile in file.profiles)
    yield _differing(reduce(_overlay, (file.keep for file in reversed(files)), {}))


def with_files_below(keep: HealthKeep, files: Sequence[HealthFile], profile: Profile) -> HealthKeep:
    """`keep` with the limits of `files` and `profile` under what it says itself, for a log that no launch resolved."""
    table = _written(keep)
    for lower in layers_below(files, profile):
        table = _overlay(lower, table)
    return msgspec.convert(table, HealthKeep)


def with_file_above(keep: HealthKeep, file: HealthFile, profile: Profile) -> HealthKeep:
    """`keep` under the limits of `file` and its `profile`. Raises `PresetError` where the two contradict each other."""
    table = _overlay(_overlay(_written(keep), file.keep), file.profiles.get(profile, {}))
    changed = msgspec.convert(table, HealthKeep)
    for sentence in contradictions(changed):
        raise file.place.refuse(sentence)
    return changed


def _written(keep: HealthKeep) -> dict[str, object]:
    table: dict[str, object] = msgspec.to_builtins(keep)
    return table


def _profiles(table: object, place: Place) -> dict[str, Mapping[str, object]]:
    if not isinstance(table, dict):
        raise place.misfit(table, "a table of profiles; a preset chooses one with keep.health.profile")
    for name in table:
        if name not in PROFILES:
            raise unknown_key(place.at(name), name, PROFILES)
    return {name: fit_table(described(Limits), rules, place.at(name)) for name, rules in table.items()}


def _differing(keep: Mapping[str, object]) -> dict[str, object]:
    kept: dict[str, object] = {}
    for name, value in keep.items():
        default = getattr(HealthKeep(), name.replace("-", "_"))
        if isinstance(value, dict):
            rest = {key: it for key, it in value.items() if it != getattr(default, key)}
            kept |= {name: rest} if rest else {}
        elif value != default:
            kept[name] = value
    return kept


def _overlay(lower: Mapping[str, object], upper: Mapping[str, object]) -> dict[str, object]:
    both = dict(lower)
    for name, value in upper.items():
        present = both.get(name)
        both[name] = {**present, **value} if isinstance(present, dict) and isinstance(value, dict) else value
    return both


def contradictions(limits: Limits, prefix: str = "") -> Iterator[str]:
    """A sentence for each pair that contradicts itself, with the nearest valid value; keys begin with `prefix`."""
    for rule, lower, upper in ((rule, *pair) for rule, pairs in _AT_MOST.items() for pair in pairs):
        written = getattr(limits, rule.replace("-", "_"))
        low, high = getattr(written, lower), getattr(written, upper)
        if low > high:
            yield (
                f"{prefix}{rule}.{lower} = {low:g} must be at most {rule}.{upper} = {high:g}; "
                f"the nearest valid value is {high:g}"
            )
