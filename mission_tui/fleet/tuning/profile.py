"""A host profile: the settings with which a preset trains fastest on one machine, and where it holds.

It may set only what leaves alone what is learned, and a shape where that was asked for. It holds for the task and the
network it was measured with, on the machine it was measured on; elsewhere `auto` passes it over and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.schema import TABLES, Place, fit_table, unknown_key
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.text import clean
from mission_tui.fleet.timed_runs import work_of

SETTABLE: Mapping[str, tuple[str, ...]] = {
    "env": ("vec", "n_workers", "n_envs"),
    "ppo": ("n_steps", "batch_size"),
    "run": ("threads", "compile", "precision"),
}
"""By table, all that a host profile may set."""

_LEARNING = ("ppo.learning_rate", "ppo.gamma")
_VERSIONED = ("mission_tui", "torch", "python")


class HostProfile(Struct, frozen=True):
    """What was found for `preset` at the time `tuned` (as people read it). `settings` are by table; none: nothing was
    better. `why` has a sentence for each, `sentence` is the verdict; `work` is the task it holds for.
    """

    preset: str
    tuned: str
    sentence: str
    host: Mapping[str, str]
    versions: Mapping[str, str]
    work: Mapping[str, str]
    settings: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The settings in one line; empty where there are none."""
        return ", ".join(
            f"{table}.{name} = {_shown(it)}" for table, of in self.settings.items() for name, it in of.items()
        )


class Fit(Struct, frozen=True):
    """Whether a profile holds here. `elsewhere`: another machine or another task; `notes` are sentences."""

    elsewhere: bool
    notes: tuple[str, ...]


def task_of(spec: Spec) -> dict[str, str]:
    """What the speed of `spec` depends on, a host's settings aside, as text by dotted key."""
    work: dict[str, object] = {key: value for key, value in work_of(spec).items() if key not in _LEARNING}
    work |= {
        "env.normalize": spec.env.normalize is not False,
        "env.frame_stack": spec.env.frame_stack,
        "ppo.algo": spec.ppo.algo,
        "ppo.policy": spec.ppo.policy,
        "run.device": spec.run.device,
        "run.engine": spec.run.engine,
    }
    return {key: str(value) for key, value in work.items()}


def settings_of(own: Spec, words: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The settings that `words` make of `own`, by table; what they take back to "not written" is left out."""
    spec = change(own, words)
    found: dict[str, dict[str, Any]] = {}
    for word in words:
        table, name = word.partition("=")[0].split(".", 1)
        value = getattr(getattr(spec, table), name)
        if value is not None and value != getattr(getattr(own, table), name):
            found.setdefault(table, {})[name] = value
    return found


def profile_tables(profile: HostProfile) -> dict[str, Any]:
    """The file's TOML tables."""
    head = {"preset": profile.preset, "tuned": profile.tuned, "sentence": profile.sentence}
    parts = {"host": profile.host, "versions": profile.versions, "set": profile.settings, "why": profile.why}
    return {
        **head,
        **{name: dict(part) for name, part in parts.items() if part},
        "work": dict(profile.work),
    }


def read_profile(table: Mapping[str, object], source: str) -> HostProfile:
    """The profile in `table`, parsed from the file `source`. Raises `PresetError` naming file, key and nearest name."""
    place, texts, maps = Place(source), ("preset", "tuned", "sentence"), ("host", "versions", "why", "work")
    for key in table:
        if key not in (*texts, *maps, "set"):
            raise unknown_key(place.at(key), key, (*texts, *maps, "set"))
    preset, tuned, sentence = (_text(table.get(name), place.at(name)) for name in texts)
    host, versions, why, work = (_texts(table.get(name, {}), place.at(name)) for name in maps)
    settings = _settings(table.get("set", {}), place.at("set"))
    return HostProfile(preset, tuned, sentence, host, versions, work, settings, why)


def suits(profile: HostProfile, spec: Spec, host: Mapping[str, str], versions: Mapping[str, str]) -> Fit:
    """Whether `profile` holds for `spec`, the preset without it, on the machine `host` with these `versions`."""
    notes, elsewhere = [], False
    task = task_of(spec)
    if changed := [key for key, value in task.items() if profile.work.get(key) != value]:
        elsewhere = True
        shown = ", ".join(f"{key} {profile.work.get(key, '-')} then, {task[key]} now" for key in changed[:3])
        notes.append(f"was tuned for another task ({shown})")
    if other := [key for key in sorted({*profile.host, *host}) if profile.host.get(key) != host.get(key)]:
        elsewhere = True
        shown = ", ".join(f"{key} {profile.host.get(key, '-')} then, {host.get(key, '-')} now" for key in other[:3])
        notes.append(f"was tuned on another machine ({shown})")
    if old := [key for key in _VERSIONED if key in profile.versions and versions.get(key, "") != profile.versions[key]]:
        shown = ", ".join(f"{key} {profile.versions[key]} then, {versions.get(key, '-')} now" for key in old)
        notes.append(f"was tuned with another version ({shown})")
    return Fit(elsewhere, tuple(notes))


def _text(value: object, place: Place) -> str:
    if not isinstance(value, str) or not value:
        raise place.misfit(value, "text in quotes; mission-tui tune PRESET writes the file anew")
    return clean(value)


def _texts(table: object, place: Place) -> dict[str, str]:
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise place.misfit(table, "a table of texts")
    return {clean(str(key)): clean(value) for key, value in table.items()}


def _settings(table: object, place: Place) -> dict[str, dict[str, Any]]:
    if not isinstance(table, dict):
        raise place.misfit(table, f"a table of {', '.join(SETTABLE)}")
    found: dict[str, dict[str, Any]] = {}
    for name, fields in table.items():
        if name not in SETTABLE:
            raise unknown_key(place.at(name), name, SETTABLE)
        found[name] = fit_table(TABLES[name], fields, place.at(name), complete=False)
        for key in found[name]:
            if key not in SETTABLE[name]:
                there = place.at(name).at(key)
                raise there.refuse(
                    f"{there.key} cannot be set here, because it changes what is learned; "
                    f"valid here: {', '.join(SETTABLE[name])}"
                )
    return found


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
