"""The words of one `launch` and the specs that they stand for: every combination of presets, `--set` values and seeds;
and the host profile that is laid over them: which one is meant, whether it holds here, and the sentence that says so.
And the plan of a search from what was typed: as options of `search`, or as lines of the launch form.

Where presets come from and which code of their own they name is printed before any of it is started: `./presets` may
come from someone else, for example with a cloned repository. Nothing is printed about presets of the user's own and
shipped ones. The other way round, a preset with changes is saved as one of the user's own, for the screen and for
`presets save`.

Preset files are read and nothing is started: every word of a command is understood before any of it happens.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import structs

from mission_tui.control_groups import usable_cores
from mission_tui.errors import PresetError, UsageError, nearest
from mission_tui.paths import clusters_file, profile_dir, user_presets

if TYPE_CHECKING:
    from mission_tui.cli.session import Session
    from mission_tui.fleet.specs.assignment import Assignment
    from mission_tui.fleet.specs.health_file import HealthFile
    from mission_tui.fleet.specs.own_code import OwnCode
    from mission_tui.fleet.specs.preset import MachineTables, PresetFile, SavedPreset, Saving
    from mission_tui.fleet.specs.schema import Place
    from mission_tui.fleet.specs.spec import LaunchItem, Spec
    from mission_tui.search.plan import Pruning, SearchPlan

    Again = Callable[[tuple[Place, Mapping[str, dict[str, Any]]]], Spec]


PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True, slots=True)
class LaunchArguments:
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


def planned_one(session: Session, wish: LaunchArguments, taker: str) -> LaunchItem:
    """The one run that `wish` stands for, its origin printed. Raises as `planned`, and `UsageError` for several."""
    plan = planned(wish, session.preset_dirs, session.health(), session.profile_dir)
    say_origins(plan.foreign)
    if len(plan.items) != 1:
        raise UsageError(
            f"{wish.presets[0]} with these settings makes {len(plan.items)} runs, but {taker} takes one: name one "
            "preset, and one value per key"
        )
    return plan.items[0]


def planned(
    wish: LaunchArguments, preset_dirs: Sequence[Path], health: Sequence[HealthFile] = (), profiles: Path | None = None
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

    def clusters() -> MachineTables | None:
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
    own = {preset.path: preset for preset in presets if preset.origin == "here"}
    found = (named_preset(it, [spec for made_of, spec in made if made_of == it], preset_dirs) for it in own.values())
    return tuple(it for it in found if it is not None)


def _loaded(wish: LaunchArguments, preset_dirs: Sequence[Path]) -> list[PresetFile]:
    """What the words name: preset files, or the command as the preset that a file with it would be."""
    from mission_tui.fleet.specs.preset import read_preset
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


_ELSEWHERE_AT_ONCE = 4
"""So many trials at a time where another machine carries them out."""
_TABLE, _VALUES = "search.", "run.values."


def search_plan(
    base: Spec,
    params: tuple[str, ...],
    space: str,
    metric: str,
    numbers: tuple[int, int | None, int, int],
    *,
    minimize: bool,
    prune: Pruning,
) -> SearchPlan:
    """The whole plan, checked. Raises `UsageError` and `PresetError`."""
    from mission_tui.fleet.capacity.demand import busy_cores
    from mission_tui.fleet.specs.spec import LAUNCHERS
    from mission_tui.search.plan import SearchPlan, setting_of

    metric = _checked_metric(base, metric)
    trials, at_once, seeds, confirm = numbers
    if at_once is None:
        cores = usable_cores()
        here = max(1, cores // busy_cores(base, cores))
        at_once = here if base.run.launcher == LAUNCHERS[0] else _ELSEWHERE_AT_ONCE
    plan = SearchPlan(
        base=base,
        params=params,
        space=space,
        trials=trials,
        at_once=at_once,
        seeds=seeds,
        metric=metric,
        minimize=minimize,
        prune=prune,
        confirm=confirm,
    )
    lacking = [
        each.key for each in plan.parameters if each.key.startswith(_VALUES) and setting_of(base, each.key) is None
    ]
    # A command that has no value of its own for a placeholder is nothing that a winner could be held against.
    return msgspec.structs.replace(plan, confirm=0) if lacking else plan


def _checked_metric(base: Spec, metric: str) -> str:
    """The tag of the metric; `eval/success` is short for one. Raises `UsageError` for what no run of `base` reports."""
    from difflib import get_close_matches

    from mission_tui.fleet.events.metrics import EVAL_RETURN, EVAL_SUCCESS
    from mission_tui.present.numbers import TITLES

    if base.run.command is not None:
        return metric
    if metric == "eval/success":
        metric = EVAL_SUCCESS
    played = (EVAL_RETURN, EVAL_SUCCESS)
    if metric.startswith("eval/") and metric not in played:
        raise UsageError(f"--metric {metric}: evaluations give {' and '.join(played)}{nearest(metric, played)}")
    if metric in played and base.evaluate.every is None:
        raise UsageError(f"--metric {metric} needs evaluations: add --set evaluate.every=10000")
    # An environment of the person's own may report more; what is one letter off is a slip.
    if metric not in TITLES and (near := get_close_matches(metric, TITLES, n=1, cutoff=0.9)):
        raise UsageError(f"--metric {metric} is reported by no training of a preset; did you mean '{near[0]}'?")
    return metric


class _Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lines `search.trials=40` of a form."""

    trials: int = 20
    at_once: int | None = None
    seeds: int = 1
    confirm: int = 5
    metric: str = "rollout/ep_rew_mean"
    minimize: bool = False
    prune: Literal["none", "median", "hyperband"] = "none"
    space: str = ""


def typed_search(words: Sequence[str], base_of: Callable[[tuple[str, ...]], Spec]) -> Spec | None:
    """The driver of the search that lines of the form ask for: a range such as `ppo.n_epochs=4..20`, or a line of the
    table `search`, makes a search of a launch. None where there is neither.

    In a search lines with several values are choices. `base_of` resolves the other lines. Raises as `search_plan`.
    """
    pairs = [(key.strip(), text.strip()) for key, _, text in (word.partition("=") for word in words)]
    if not any(key.startswith(_TABLE) or ".." in text for key, text in pairs):
        return None
    from mission_tui.fleet.launch_plan import repeat_seed
    from mission_tui.fleet.specs.assignment import alternatives
    from mission_tui.run_module import module_words
    from mission_tui.search.plan import MODULE, driver_item, group_name
    from mission_tui.search.study import check_installed

    check_installed()
    options = _options({key.removeprefix(_TABLE): text for key, text in pairs if key.startswith(_TABLE)})
    others = [(key, text) for key, text in pairs if not key.startswith(_TABLE)]
    params = [f"{key}={text}" for key, text in others if key != "run.seed" and _varies(text)]
    seeds = next((alternatives(text) for key, text in others if key == "run.seed"), [])
    fixed = [f"{key}={text}" for key, text in others if key != "run.seed" and not _varies(text)]
    base = base_of((*fixed, *(f"run.seed={seed}" for seed in seeds[:1])))
    if seeds != [str(repeat_seed(base.run.seed, number)) for number in range(1, len(seeds) + 1)]:
        raise UsageError("the seeds of a search count up from the first: give their number in the field seeds")
    numbers = (options.trials, options.at_once, max(options.seeds, len(seeds)), options.confirm)
    plan = search_plan(
        base, tuple(params), options.space, options.metric, numbers, minimize=options.minimize, prune=options.prune
    )
    group = group_name(None, base.preset, secrets.token_hex(2))
    return driver_item(plan, group, module_words(MODULE)).spec


def _varies(text: str) -> bool:
    from mission_tui.fleet.specs.assignment import alternatives

    return ".." in text or len(alternatives(text)) > 1


def _options(lines: dict[str, str]) -> _Options:
    """Raises `UsageError` naming the line."""
    for name in lines:
        if name not in _Options.__struct_fields__:
            names = _Options.__struct_fields__
            raise UsageError(
                f"{_TABLE}{name} is no setting of a search{nearest(name, names) or ': ' + ', '.join(names)}"
            )
    try:
        return msgspec.convert(lines, _Options, strict=False)
    except msgspec.ValidationError as error:
        name = str(error).rpartition("$.")[2].rstrip("`")
        raise UsageError(f"{_TABLE}{name} = {lines.get(name, '')}: {str(error).partition(' - ')[0]}") from None


@dataclass(frozen=True, slots=True)
class NamedPreset:
    """A preset from the working folder that is about to be used, the code it names, and the preset that it hides."""

    preset: PresetFile
    code: tuple[OwnCode, ...]
    hides: PresetFile | None = None


def named_preset(preset: PresetFile, specs: Iterable[Spec], dirs: Sequence[Path]) -> NamedPreset | None:
    """The origin of `preset`, which became `specs`; None for the user's own and shipped ones."""
    from mission_tui.fleet.specs.own_code import own_code
    from mission_tui.records.preset_files import hidden_by

    if preset.origin != "here":
        return None
    code = dict.fromkeys(found for spec in specs for found in own_code(spec))
    return NamedPreset(preset, tuple(code), hidden_by(preset, dirs))


def say_origins(found: Iterable[NamedPreset]) -> None:
    """On stderr, a line each: that one hides another preset, and which code it names."""
    from mission_tui.cli.terminal_output import print_error

    for it in found:
        name, where = it.preset.name, shown_path(it.preset.path)
        if it.hides is not None:
            whose = "the shipped one" if it.hides.origin == "shipped" else "yours"
            print_error(
                f"note: {name} is {where} in this folder, not {whose}; write {it.hides.origin}:{name} for that one"
            )
        if it.code:
            from mission_tui.fleet.specs.own_code import own_code_words

            print_error(f"note: preset {name} comes from {where} and names its own code: {own_code_words(it.code)}")


def own_code_facts(found: Iterable[NamedPreset]) -> list[dict[str, Any]]:
    """The same for documents: what each of these presets names, with its file."""
    return [
        {"preset": it.preset.name, "path": str(it.preset.path), "kind": code.kind, "key": code.key, "value": code.value}
        for it in found
        for code in it.code
    ]


def shown_path(path: Path) -> str:
    """Relative to the working folder, as a person would type it."""
    try:
        return f"./{path.absolute().relative_to(Path.cwd())}"
    except ValueError:
        return str(path)


def save_preset(session: Session, saving: Saving, *, replace: bool = False) -> SavedPreset:
    """Write it to the user's folder. Without `replace`, nothing is written where a preset has that name already.

    It is resolved before it is written: it must describe exactly the run that was saved.

    Raises `UsageError` for a sweep and for a name that a nearer folder has, `PresetError` for what is no preset.
    """
    from mission_tui.fleet.specs.assignment import expand
    from mission_tui.fleet.specs.preset import SavedPreset, check_preset_name, read_preset, written
    from mission_tui.records.preset_files import base_of, load_preset, write_preset

    name, dirs = check_preset_name(saving.name), session.preset_dirs
    preset = load_preset(saving.source, dirs)
    runs = expand(saving.assignments)
    if len(runs) > 1:
        raise UsageError(f"a preset describes one run, but these values make {len(runs)}: give one value per key")
    path = user_presets(session.environ) / f"{name}.toml"
    head = {"description": saving.description if saving.description is not None else _description(preset, saving)}
    table: dict[str, Any] = {
        **head,
        **({} if saving.key is None else {"key": saving.key}),
        **written(preset, lambda base: base_of(preset, base, dirs), runs[0]),
    }
    _check_same(session, preset, saving, read_preset(table, path))
    there = _there(session, path)
    if not there or replace:
        write_preset(path, table)
        there = ""
    return SavedPreset(name, str(path), there)


def _description(preset: PresetFile, saving: Saving) -> str:
    if not saving.assignments:
        return preset.description or preset.name
    return f"{preset.name} with {', '.join(saving.assignments)}"


def _check_same(session: Session, preset: PresetFile, saving: Saving, saved: PresetFile) -> None:
    from mission_tui.fleet.specs.assignment import expand
    from mission_tui.fleet.specs.preset import resolve
    from mission_tui.records.preset_files import base_of

    def base(name: str) -> PresetFile:
        return base_of(preset, name, session.preset_dirs)

    health = session.health()
    meant = resolve(preset, base, expand(saving.assignments)[0], health)
    means = resolve(saved, base, (), health)
    if structs.replace(means, preset=meant.preset, description=meant.description) != meant:
        raise PresetError(f"{saved.path}: it would describe a different run, so it was not written; please report this")


def _there(session: Session, path: Path) -> str:
    """What has the name of the file at `path` already; empty for nothing. Raises `UsageError` for what would be found
    in its place.
    """
    from mission_tui.records.preset_files import find_presets

    dirs = session.preset_dirs
    for place, folder in enumerate(dirs):
        if path.exists() and folder == path.parent:
            return f"{path} is there already"
        found, broken = find_presets((folder,))
        if path.stem not in found and path.stem not in broken:
            continue
        file = found[path.stem].path if path.stem in found else folder / path.name
        if path.parent in dirs[place:]:
            raise UsageError(f"the preset '{path.stem}' in {file} would be used instead of it: choose another name")
        return f"it would hide the preset '{path.stem}' in {file}"
    return ""
