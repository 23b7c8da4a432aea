"""Limits of the health rules: what contradicts itself, how layers and profiles lie over one another, what is frozen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mission_tui.errors import PresetError, UsageError
from mission_tui.fleet.specs.assignment import expand
from mission_tui.fleet.specs.health_file import (
    HealthFile,
    contradictions,
    profile_of,
    read_health,
    with_file_above,
    with_files_below,
)
from mission_tui.fleet.specs.preset import as_tables, change, from_tables, read_preset, resolve
from mission_tui.fleet.specs.spec import EnvSpec, KeepSpec, PpoSpec, RunSpec, Schedule, Spec
from mission_tui.fleet.specs.thresholds import HealthKeep, KlPersistentLimits, Limits, StallLimits

MINE = Path("mine/health.toml")
SHIPPED = read_health(
    {"profile": {"large-batch": {"kl-persistent": {"warning": 3.0}}, "wide-clip": {}}}, Path("shipped.toml")
)


def mine(table: dict[str, Any]) -> HealthFile:
    """The user's health file."""
    return read_health(table, MINE)


def spec_with(
    *words: str, keep: dict[str, Any] | None = None, health: tuple[HealthFile, ...] = (SHIPPED,), n_envs: int = 8
) -> Spec:
    """The run of a preset with `keep.health` and `--set` words, resolved over `health`."""
    table: dict[str, Any] = {
        "env": {"id": "CartPole-v1", "n_envs": n_envs},
        "ppo": {"n_steps": 128},
        "run": {"total_timesteps": 10**6},
        "keep": {"health": keep} if keep else {},
    }
    (assignments,) = expand(words)

    def none(name: str) -> Any:
        raise AssertionError(name)

    return resolve(read_preset(table, Path("presets/my.toml")), none, assignments, health)


def refusal(*words: str, **more: Any) -> str:
    """The sentence that refuses it."""
    with pytest.raises(PresetError) as caught:
        spec_with(*words, **more)
    return str(caught.value)


def test_the_defaults_do_not_contradict_themselves() -> None:
    """No pair of shipped limits is the wrong way round."""
    assert list(contradictions(Limits())) == []


def test_leaving_above_entering_is_named_with_the_nearest_value() -> None:
    """A level that is left above where it is entered would flicker: the sentence says both keys and what would do."""
    (sentence,) = contradictions(Limits(kl_persistent=KlPersistentLimits(warning_leave=3.0)))
    assert sentence == (
        "kl-persistent.warning_leave = 3 must be at most kl-persistent.warning = 2; the nearest valid value is 2"
    )
    assert len(list(contradictions(Limits(stall=StallLimits(every=51, window=50))))) == 1


def test_layers_lie_in_order() -> None:
    """User's file, profile, preset and --set each lie over the one before, threshold by threshold."""
    own = mine({"kl-persistent": {"warning": 2.1, "window": 9, "needed": 6, "critical": 6.0}, "stall": {"every": 4}})
    preset = {"kl-persistent": {"needed": 7}}
    spec = spec_with("keep.health.stall.every=3", keep=preset, health=(own, SHIPPED), n_envs=1024)
    limits = spec.keep.health
    assert limits.profile == "large-batch"
    assert limits.kl_persistent == KlPersistentLimits(warning=3.0, window=9, needed=7, critical=6.0)
    assert limits.stall.every == 3


def test_a_users_profile_lies_over_the_shipped_one() -> None:
    """Both files may have the profile; the user's tables win, the rest of the shipped ones stays."""
    own = mine({"profile": {"large-batch": {"kl-persistent": {"critical": 5.0}}}})
    limits = spec_with(health=(own, SHIPPED), n_envs=1024).keep.health
    assert (limits.kl_persistent.warning, limits.kl_persistent.critical) == (3.0, 5.0)
    assert spec_with(health=(own, SHIPPED)).keep.health.kl_persistent.critical == 4.0


@pytest.mark.parametrize(
    ("n_envs", "n_steps", "clip", "auto_scale", "profile"),
    [
        (8, 128, 0.2, False, "default"),
        (8, 128, 0.1, False, "default"),
        (8, 128, 0.05, False, "narrow-clip"),
        (8, 128, Schedule(start=0.2), False, "default"),
        (8, 128, Schedule(start=0.4), False, "wide-clip"),
        (1024, 128, 0.2, False, "large-batch"),
        (1024, 127, 0.2, False, "default"),
        (256, 128, 0.2, True, "large-batch"),
        (256, 128, 0.2, False, "default"),
        (1024, 128, 0.1, False, "large-batch"),
    ],
)
def test_the_profile_that_suits(
    n_envs: int, n_steps: int, clip: float | Schedule, auto_scale: bool, profile: str
) -> None:
    """Large rollouts take large-batch, sooner with auto-scaling; else the clip range decides."""
    spec = Spec(
        preset="p",
        env=EnvSpec(id="X-v0", n_envs=n_envs),
        ppo=PpoSpec(n_steps=n_steps, clip_range=clip),
        run=RunSpec(total_timesteps=1, auto_scale=auto_scale),
    )
    assert profile_of(spec) == profile


def test_a_named_profile_counts() -> None:
    """A preset may name a profile that would not suit by itself, or none."""
    assert spec_with(keep={"profile": "large-batch"}).keep.health.kl_persistent.warning == 3.0
    assert spec_with("keep.health.profile=default", n_envs=1024).keep.health.kl_persistent.warning == 2.0


def test_only_what_differs_is_frozen_and_comes_back() -> None:
    """The spec's tables hold the profile and the limits that differ; reading them gives the same limits."""
    own = mine({"stall": {"every": 4, "window": 50}, "nan": {"act": "stop"}, "on_event": "notify-me"})
    spec = spec_with("keep.health.kl-persistent.act=stop", health=(own, SHIPPED))
    tables = as_tables(spec)
    assert tables["keep"]["health"] == {
        "profile": "default",
        "on_event": "notify-me",
        "stall": {"every": 4},
        "kl-persistent": {"act": "stop"},
    }
    assert from_tables(tables, "spec.toml") == spec


def test_a_resume_keeps_the_limits_and_changes_them_one_by_one() -> None:
    """What was laid at launch stays; the profile itself cannot be chosen again, and the sentence says what can."""
    spec = spec_with(n_envs=1024)
    changed = change(spec, ["keep.health.kl-persistent.warning=3.5", "ppo.clip_range=0.1"]).keep.health
    assert (changed.profile, changed.kl_persistent.warning) == ("large-batch", 3.5)
    with pytest.raises(UsageError, match=r"keep\.health\.kl-persistent\.warning=3"):
        change(spec, ["keep.health.profile=default"])


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"kl-persistant": {}}, "unknown key kl-persistant; did you mean 'kl-persistent'?"),
        ({"kl-persistent": {"warnin": 3}}, "unknown key kl-persistent.warnin; did you mean 'warning'?"),
        ({"kl-persistent": 3}, "kl-persistent = 3 must be a table"),
        ({"kl-persistent": {"warning": "high"}}, "kl-persistent.warning = 'high' must be a finite number, such as 2.0"),
        ({"kl-persistent": {"needed": 0}}, "must be at least 1; the nearest valid value is 1"),
        ({"stall": {"cap_share": 1.5}}, "must be at most 1; the nearest valid value is 1"),
        ({"nan": {"act": "halt"}}, "must be one of 'checkpoint', 'notify', 'off', 'pause', 'stop'"),
        ({"kl-persistent": {"warning": 5}}, "kl-persistent.warning = 5 must be at most kl-persistent.critical = 4"),
        ({"profile": "wide-clip"}, "keep.health.profile"),
        ({"profile": {"wide": {}}}, "unknown key profile.wide; did you mean 'wide-clip'?"),
        ({"profile": {"wide-clip": {"stll": {}}}}, "unknown key profile.wide-clip.stll; did you mean 'stall'?"),
        (
            {"profile": {"wide-clip": {"stall": {"every": 99}}}},
            "profile.wide-clip.stall.every = 99 must be at most stall.window",
        ),
    ],
)
def test_a_mistake_in_a_health_file_names_file_key_and_remedy(table: dict[str, Any], said: str) -> None:
    """Every refusal is one sentence that begins with the file."""
    with pytest.raises(PresetError) as caught:
        mine(table)
    assert str(caught.value).startswith("mine/health.toml: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_contradiction_between_layers_names_the_nearest_one() -> None:
    """A preset or a word that contradicts what lies below is refused by its own name, else the file is named."""
    assert refusal("keep.health.kl-persistent.warning=5").startswith("--set keep.health.kl-persistent.warning=5: keep.")
    said = refusal(keep={"stall": {"window": 4}})
    assert said.startswith("presets/my.toml: keep.health.stall.every = 5 must be at most stall.window = 4")
    own = mine({"kl-persistent": {"warning_leave": 1.9, "critical": 2.5, "critical_leave": 2.0}})
    assert refusal(health=(own, SHIPPED), n_envs=1024).startswith("mine/health.toml: ")


def test_limits_over_and_under_those_of_a_log() -> None:
    """Of limits that nobody resolved the usual ones fill the gaps; a file to judge by lies over all of them."""
    own = mine({"stall": {"every": 4}, "kl-persistent": {"window": 9}})
    keep = with_files_below(HealthKeep(stall=StallLimits(every=2)), (own, SHIPPED), "large-batch")
    assert (keep.stall.every, keep.kl_persistent.window, keep.kl_persistent.warning) == (2, 9, 3.0)
    assert with_file_above(keep, mine({"stall": {"every": 3}}), "default").stall.every == 3
    with pytest.raises(PresetError, match=r"^mine/health\.toml: kl-persistent\.warning = 3 must be at most"):
        with_file_above(keep, mine({"kl-persistent": {"critical": 2.6}}), "default")


def test_without_health_files_nothing_is_chosen() -> None:
    """Where no file is laid under it, a spec keeps its own limits and leaves the profile open."""
    assert spec_with(health=(), n_envs=1024).keep == KeepSpec()
