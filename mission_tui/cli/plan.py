"""The words of one `launch` and the specs that they stand for: every combination of presets, `--set` values and seeds;
and the host profile that is laid over them: which one is meant, whether it holds here, and the sentence that says so.

Preset files are read and nothing is started: every word of a command is understood before any of it happens.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from mission_tui.errors import UsageError
from mission_tui.paths import clusters_file, profile_dir

if TYPE_CHECKING:
    from mission_tui.cli.presets import NamedPreset
    from mission_tui.cli.session import Session
    from mission_tui.fleet.specs.assignment import Assignment
    from mission_tui.fleet.specs.health_file import HealthFile
    from mission_tui.fleet.specs.preset import Machine
    from mission_tui.fleet.specs.preset_file import PresetFile
    from mission_tui.fleet.specs.schema import Place
    from mission_tui.fleet.specs.spec import LaunchItem, Spec

    Again = Callable[[tuple[Place, Mapping[str, dict[str, Any]]]], Spec]


PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True, slots=True)
class LaunchWish:
    """The words of one `launch`; `command` are those after a bare `--`, None where there was none.

    They begin once the runs `after` have ended. `profile` is the host profile that lies over each preset: "auto", a
    path, or "none"; None leaves it to the preset. `group` is what several are listed under; None names one for them.
    `at_once` of its runs may live at the same time.
    """

    presets: tuple[str, ...]
    copies: int = 1
    name: str | None = None
    assignments: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    command: tuple[str, ...] | None = None
    after: tuple[str, ...] = ()
    profile: str | None = None
    group: str | None = None
    priority: int | None = None
    at_once: int | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """The runs, and those of the presets that are neither the user's own nor shipped."""

    items: tuple[LaunchItem, ...]
    foreign: tuple[NamedPreset, ...] = ()


def planned_one(session: Session, wish: LaunchWish, taker: str) -> LaunchItem:
    """The one run that `wish` stands for, its origin printed. Raises as `planned`, and `UsageError` for several."""
    from mission_tui.cli.presets import say_origins

    plan = planned(wish, session.preset_dirs, session.health(), session.profile_dir)
    say_origins(plan.foreign)
    if len(plan.items) != 1:
        raise UsageError(
            f"{wish.presets[0]} with these settings makes {len(plan.items)} runs, but {taker} takes one: name one "
            "preset, and one value per key"
        )
    return plan.items[0]


def planned(
    wish: LaunchWish, preset_dirs: Sequence[Path], health: Sequence[HealthFile] = (), profiles: Path | None = None
) -> Planned:
    """The runs `wish` stands for, in the order of its words.

    The limits of `health` lie under every preset's own; without any, the defaults do. Host profiles are looked for in
    the folder `profiles`; None is the user's.
    Raises `UsageError` for unknown presets, names and counts, `PresetError` for presets and settings.
    """
    from mission_tui.fleet.launch_plan import launch_words, plan_launch, product_words, run_labels
    from mission_tui.fleet.specs.assignment import expand, factors
    from mission_tui.records.preset_files import launched_by

    if not wish.presets and wish.command is None:
        raise UsageError(
            "name a preset to launch (mission-tui presets lists them), give --preset FILE, or a command after --"
        )
    assignments = wish.assignments if wish.command is None else placed(wish.assignments, wish.command, wish.seeds)
    words = launch_words(assignments, seeds=wish.seeds, priority=wish.priority, at_once=wish.at_once)
    loaded = _loaded(wish, preset_dirs)
    members = [member for preset in loaded for member in launched_by(preset, preset_dirs)]
    made = [
        (preset, resolved(preset, assignments, wish.profile, preset_dirs, health, profiles))
        for preset in members
        for assignments in expand(words)
    ]
    items = plan_launch(
        [spec for _, spec in made],
        title=next((preset.name for preset in loaded if preset.launch), made[0][1].preset),
        tag=secrets.token_hex(2),
        name=wish.name,
        group=wish.group,
        copies=wish.copies,
        after=wish.after,
        product=product_words(len(members), factors(words), wish.copies),
        labels=run_labels(words) * len(members),
    )
    return Planned(items, _foreign([*loaded, *members], made, preset_dirs) if wish.command is None else ())


def resolved(
    preset: PresetFile,
    assignments: Sequence[Assignment],
    profile: str | None,
    preset_dirs: Sequence[Path],
    health: Sequence[HealthFile],
    profiles: Path | None = None,
) -> Spec:
    """The spec of one run of `preset`, with the host profile that `profile`, or else the preset, asks for."""
    from mission_tui.fleet.specs.preset import resolve
    from mission_tui.records.preset_files import base_of, load_clusters

    def clusters() -> Machine | None:
        return load_clusters(clusters_file(os.environ))

    def under(lies_over: tuple[Place, Mapping[str, dict[str, Any]]] | None) -> Spec:
        return resolve(
            preset, lambda base: base_of(preset, base, preset_dirs), assignments, health, lies_over, clusters
        )

    spec = under(None)
    asked = preset.profile if profile is None else profile
    if asked is None or asked == "none" or spec.run.command is not None:
        return spec

    return with_profile(spec, asked, preset.name, profiles or profile_dir(os.environ), under)


def _foreign(
    presets: Sequence[PresetFile], made: Sequence[tuple[PresetFile, Spec]], preset_dirs: Sequence[Path]
) -> tuple[NamedPreset, ...]:
    """Each of `presets` once, sets too, that the working folder or a file by its path brought."""
    from mission_tui.cli.presets import named

    own = {preset.path: preset for preset in presets if preset.origin == "here"}
    found = (named(it, [spec for made_of, spec in made if made_of == it], preset_dirs) for it in own.values())
    return tuple(it for it in found if it is not None)


def _loaded(wish: LaunchWish, preset_dirs: Sequence[Path]) -> list[PresetFile]:
    """What the words name: preset files, or the command as the preset that a file with it would be."""
    from mission_tui.fleet.specs.preset_file import read_preset
    from mission_tui.records.preset_files import load_preset

    if wish.command is None:
        return [load_preset(word, preset_dirs) for word in wish.presets]
    if wish.presets:
        raise UsageError(f"'{wish.presets[0]}' is a preset and -- begins a command: launch one of the two at a time")
    if not wish.command:
        raise UsageError("there is no command after --; give one, such as -- python train.py")
    return [read_preset({"run": {"command": list(wish.command)}, "name": "command"}, Path("-- CMD"))]


def placed(assignments: Sequence[str], command: Sequence[str], seeds: Sequence[int]) -> tuple[str, ...]:
    """`assignments` with `lr=...`, which names no setting, as the value of the placeholder `{lr}` of `command`.

    Raises `UsageError` for one that the command does not have, and for a command that wants a seed and gets none.
    """
    from mission_tui.fleet.specs.spec import Spec

    found, wanted = [], dict.fromkeys(name for word in command for name in PLACEHOLDER.findall(word))
    for word in assignments:
        key, equals, _ = word.partition("=")
        name = key.strip()
        if not equals or "." in name or name in Spec.__struct_fields__:
            found.append(word)
        elif name == "seed":
            raise UsageError("the seed has options of its own: --seed S, or --seeds N")
        elif name in wanted:
            found.append(f"run.values.{word.strip()}")
        else:
            there = ", ".join(f"{{{each}}}" for each in wanted) or "none"
            raise UsageError(
                f"--set {word}: the command has no {{{name}}} to put it in (it has {there}); a setting of the run is "
                "named with its table, such as run.env.LR"
            )
    given = any(word.partition("=")[0].strip() == "run.seed" for word in assignments)
    if "seed" in wanted and not seeds and not given:
        raise UsageError("the command has {seed}: say which with --seed S, or how many with --seeds N")
    return tuple(found)


def with_profile(spec: Spec, asked: str, preset: str, folder: Path, again: Again) -> Spec:
    """`spec` as the profile `asked` ("auto", or the path of a file) makes it, and what is to be said about it.

    `auto` is this machine's profile of `preset` in `folder`; one of another machine or for another task is passed over.
    `again` resolves the preset with settings laid over it. Raises `PresetError` for a file that cannot be used.
    """
    from mission_tui.fleet.specs.schema import Place
    from mission_tui.fleet.tuning.profile import suits
    from mission_tui.records import tuning_files

    host = tuning_files.host_fingerprint()
    path: Path | None = Path(asked)
    if asked == "auto":
        path = tuning_files.profile_path(folder, preset, host["host"])
        path = path if path.exists() else tuning_files.other_profile(folder, preset)
    if path is None:
        said = f"there is no host profile of {preset} yet: `mission-tui tune {preset}` writes one"
        return structs.replace(spec, profile=said)
    profile = tuning_files.load_profile(path)
    fit = suits(profile, spec, host, tuning_files.versions_here())
    notes = " and ".join(fit.notes)
    if fit.elsewhere and asked == "auto":
        said = f"host profile {path.name} {notes}, so it is not used: `mission-tui tune {preset}` writes another"
        return structs.replace(spec, profile=said)
    if not profile.settings:
        said = f"host profile {path.name} sets nothing: nothing was certainly better than the preset's own settings"
    else:
        spec = again((Place(str(path)), profile.settings))
        said = f"host profile {path.name} sets {profile.words}"
    return structs.replace(spec, profile=f"{said}; it {notes}" if notes else said)
