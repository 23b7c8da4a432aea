"""From a preset to a `Spec`: what its file says at the top level, the base it extends, its own tables, then the `--set`
words, each over the one before.

A spec that leaves this module is complete and free of contradictions; every refusal names the layer that caused it.

Later layers win, `kwargs` tables add up, and each field remembers who wrote it last. The tables always hold fitted
values, so that only contradictions between fields are left to find.

While a run trains a person may change what the next update reads anew: a change takes effect between two updates, so
nothing that shapes the network, the rollout or the environments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field, structs

from mission_tui.errors import PresetError, UsageError, nearest
from mission_tui.fleet.specs import schema
from mission_tui.fleet.specs.algorithm import complaints_about_unused_tables
from mission_tui.fleet.specs.assignment import Assignment, expand
from mission_tui.fleet.specs.consistency import TRAINERS_OWN, violations
from mission_tui.fleet.specs.health_file import HealthFile, layers_below, profile_of
from mission_tui.fleet.specs.quantity import format_quantity
from mission_tui.fleet.specs.sb3_algorithms import OTHERS, OnPolicySpec, other_algorithm
from mission_tui.fleet.specs.schema import TABLES, Place, fit_table, unknown_key
from mission_tui.fleet.specs.spec import LAUNCHERS, LIVE_KEYS, EnvSpec, Spec
from mission_tui.fleet.text import clean

PresetOrigin = Literal["yours", "shipped", "here"]
"""Whose a preset is: the user's own, one that came with the program, or one of the folder that is worked in, which may
be a repository of anybody's. `ORIGIN:NAME` names it whichever others have the name.
"""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEAD = ("name", "description", "extends", "key", "launch", "profile", "algo")
_SET_KEY = "P"


class PresetFile(Struct, frozen=True):
    """A preset by name. `table` holds its fitted tables by name; `launch` makes it a set of presets.

    `profile` is the host profile that lies over it: "auto", or the path of a file; None for none. One that is `here`
    never starts by a key, and may name code of its own that nobody has read yet.
    """

    name: str
    path: Path
    table: Mapping[str, dict[str, object]] = field(default_factory=dict)
    description: str = ""
    extends: str | None = None
    key: str | None = None
    launch: tuple[str, ...] = ()
    profile: str | None = None
    origin: PresetOrigin = "here"

    @property
    def place(self) -> Place:
        """The file's top level, for messages."""
        return Place(str(self.path))


class Saving(Struct, frozen=True):
    """Preset `source` with the `--set` words `assignments`, to be called `name`, on the digit `key` if one is given."""

    source: str
    name: str
    assignments: tuple[str, ...] = ()
    key: str | None = None
    description: str | None = None


class SavedPreset(Struct, frozen=True):
    """The preset `name` is in the file at `path`; or nothing was written, because of what is `there`, a sentence."""

    name: str
    path: str
    there: str = ""


def check_preset_name(name: str) -> str:
    """`name` if a preset can be called so. Raises `PresetError` that says what can."""
    return _word(name, Place("a new preset", "name"))


def read_preset(table: Mapping[str, object], path: Path) -> PresetFile:
    """The preset in `table`, parsed from the file at `path`; its default name is the file's stem.

    Raises `PresetError` naming file, key and the nearest valid name or value. Fields that a base preset may bring and
    contradictions between fields are left to `resolve`.
    """
    place = Place(str(path))
    table = _with_algo(table, place)
    for key in table:
        if key not in TABLES and key not in _HEAD:
            raise unknown_key(place.at(key), key, (*_HEAD, *TABLES))
    launch = _launch(table, place)
    return PresetFile(
        name=_word(table.get("name", path.stem), place.at("name")),
        path=path,
        table={
            name: fit_table(TABLES[name], table[name], place.at(name), complete=False)
            for name in TABLES
            if name in table
        },
        description=clean(_text(table.get("description", ""), place.at("description"))),
        extends=_word(table["extends"], place.at("extends")) if "extends" in table else None,
        key=_key(table["key"], place.at("key"), is_set=bool(launch)) if "key" in table else None,
        launch=launch,
        profile=_profile(table["profile"], place.at("profile"), path) if "profile" in table else None,
    )


def _with_algo(table: Mapping[str, object], place: Place) -> Mapping[str, object]:
    """`algo` at the top level is `run.algo`, written where a reader looks first."""
    if "algo" not in table:
        return table
    run = table.get("run", {})
    if isinstance(run, Mapping) and "algo" in run:
        raise place.refuse("algo and run.algo say the same; keep one of them")
    rest = {name: value for name, value in table.items() if name != "algo"}
    return {**rest, "run": {**run, "algo": table["algo"]} if isinstance(run, Mapping) else run}


def _text(value: object, place: Place) -> str:
    if not isinstance(value, str):
        raise place.misfit(value, "text in quotes")
    return value


def _word(value: object, place: Place) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise place.misfit(value, "1 to 64 letters, digits, '.', '_' or '-', starting with a letter or digit")
    return value


def _key(value: object, place: Place, *, is_set: bool) -> str:
    allowed = f'a digit in quotes, such as "5"{f", or {_SET_KEY!r} for a set" if is_set else ""}'
    if not isinstance(value, str) or not (re.fullmatch("[0-9]", value) or (is_set and value == _SET_KEY)):
        raise place.misfit(value, allowed)
    return value


def _profile(value: object, place: Place, path: Path) -> str:
    if value == "auto":
        return "auto"
    if not isinstance(value, str) or not value.endswith(".toml"):
        raise place.misfit(value, '"auto", or the path of a profile that mission-tui tune has written')
    return str(path.parent / Path(value).expanduser())


def _launch(table: Mapping[str, object], place: Place) -> tuple[str, ...]:
    if "launch" not in table:
        return ()
    names = table["launch"]
    if names == []:
        raise place.refuse('launch = [] names no preset; give some, such as ["fast", "heavy"]')
    if not isinstance(names, list):
        raise place.at("launch").misfit(names, 'a list of preset names, such as ["fast", "heavy"]')
    for other in ("extends", "profile", "algo", *TABLES):
        if other in table:
            raise place.refuse(f"launch makes this a set of presets, which has no {other}; remove one of the two")
    return tuple(_word(name, place.at("launch").item(index)) for index, name in enumerate(names))


MachineTables = tuple[schema.Place, Mapping[str, Mapping[str, object]]]
"""The tables of a host profile that hold here, and where they stand."""
_BUDGETS = ("total_timesteps", "duration_s")
_DEEPEST_KEY = 10

_SCHEDULED = ("ppo.learning_rate", "ppo.clip_range")


def resolve(
    preset: PresetFile,
    bases: Callable[[str], PresetFile],
    assignments: Sequence[Assignment] = (),
    health: Sequence[HealthFile] = (),
    machine: MachineTables | None = None,
    clusters: Callable[[], MachineTables | None] = lambda: None,
) -> Spec:
    """The spec of one run of `preset`; `bases` finds the preset it extends. The fitted tables of a host profile,
    `machine`, lie over the preset's, and the words over both. Where the run is for an engine, what `clusters` has for
    that lies under everything.

    The limits of `health`, nearest file first, lie under what preset and words say, and the spec names the profile that
    was chosen with them. Raises `PresetError` naming the file or `--set` word, the key, and the nearest valid name or
    value.
    """
    layers = _laid(preset, bases, assignments, machine)
    launcher = layers.tables.get("run", {}).get("launcher", LAUNCHERS[0])
    if launcher in schema.ENGINES and (found := clusters()) is not None and launcher in found[1]:
        layers.add_bottom_layer(found[0], {launcher: found[1][launcher]})
    if not health:
        return layers.finish(preset.name, preset.description)
    profile = profile_of(layers.draft(preset.name, preset.description))
    for table in layers_below(health, profile):
        # A contradiction is the nearest file's: those that come with the program fit each other.
        layers.add_bottom_layer(health[0].place, {"keep": {"health": table}})
    spec = layers.finish(preset.name, preset.description)
    watched = structs.replace(spec.keep.health, profile=profile)
    return structs.replace(spec, keep=structs.replace(spec.keep, health=watched))


def read_clusters(table: Mapping[str, object], path: Path) -> MachineTables:
    """What this user's `clusters.toml` asks of each engine, parsed from the file at `path`. Raises `PresetError`."""
    place = schema.Place(str(path))
    fitted = {}
    for name, value in table.items():
        if name not in schema.ENGINES:
            raise place.refuse(
                f"unknown table {schema.plain_key(name)}{nearest(name[:60], schema.ENGINES)}; "
                f"valid here: {', '.join(schema.ENGINES)}"
            )
        fitted[name] = schema.fit_table(schema.TABLES[name], value, place.at(name), complete=False)
    return place, fitted


def written(
    preset: PresetFile, bases: Callable[[str], PresetFile], assignments: Sequence[Assignment] = ()
) -> dict[str, dict[str, Any]]:
    """What `preset`, the one it extends and the words say together, as the tables of a preset that stands alone.

    What nobody wrote stays unwritten. Raises as `resolve`.
    """
    layers = _laid(preset, bases, assignments)
    layers.finish(preset.name, preset.description)
    return layers.tables


def change(spec: Spec, assignments: Sequence[str]) -> Spec:
    """`spec` with the `--set` words `assignments` applied, for a resume.

    Raises `UsageError` when a word asks for several values, `PresetError` as `resolve` does.
    """
    return _with_words(spec, assignments).finish(spec.preset, spec.description)


def draft_change(spec: Spec, assignments: Sequence[str]) -> Spec:
    """The same, contradictions between fields and all: a resume's verdict names them, with remedies."""
    return _with_words(spec, assignments).draft(spec.preset, spec.description)


def draft_assigned(spec: Spec, assignments: Sequence[Assignment]) -> Spec:
    """The same for `assignments` whose sources a refusal is to name."""
    return _assigned(spec, assignments).draft(spec.preset, spec.description)


def _with_words(spec: Spec, assignments: Sequence[str]) -> Layers:
    runs = expand(assignments)
    if len(runs) != 1:
        raise UsageError("give one value per --set key; put a list in brackets, such as [64,64]")
    return _assigned(spec, runs[0])


def _assigned(spec: Spec, assignments: Sequence[Assignment]) -> Layers:
    if any(assignment.key == "keep.health.profile" for assignment in assignments):
        raise UsageError(
            "keep.health.profile is chosen at launch; on a resume set the limits themselves, "
            "such as keep.health.kl-persistent.warning=3"
        )
    place = schema.Place("the run's spec.toml")
    layers = Layers(place)
    layers.add_layer(place, {name: table for name, table in as_tables(spec).items() if name in schema.TABLES})
    layers.assign(assignments)
    return layers


def as_tables(spec: Spec) -> dict[str, Any]:
    """`spec` as plain TOML data; fields that are None (nobody wrote them) are absent.

    What nobody asked of an engine is absent too.

    Of a command only what it obeys is there: settings of a trainer that does not run would be a lie.
    """
    tables: dict[str, Any] = msgspec.to_builtins(spec)
    for engine in schema.ENGINES:
        if getattr(spec, engine) == schema.TABLES[engine].cls():
            del tables[engine]
    if other_algorithm(spec.run.algo) is not None:
        del tables["ppo"]
    if spec.run.command is not None:
        del tables["env"], tables["evaluate"]
        tables.pop("ppo", None)
        tables["run"] = {name: value for name, value in tables["run"].items() if name not in TRAINERS_OWN}
    return {name: _written(value) for name, value in tables.items() if value is not None}


def from_tables(tables: Mapping[str, object], source: str) -> Spec:
    """The spec in `tables`, as `as_tables` made them, found in file `source`. Raises `PresetError`."""
    env, run = tables.get("env"), tables.get("run")
    if not (isinstance(run, Mapping) and "command" in run) and not (isinstance(env, Mapping) and "id" in env):
        raise schema.Place(source).refuse("env is missing, or its id; a run without one has a run.command")
    # A supervisor reads a spec per run it starts with: what needs no fitting, and no sentence, is not slowed by them.
    try:
        spec = msgspec.convert(dict(tables), Spec)
    except msgspec.ValidationError:
        fitted = schema.fit_table(schema.described(Spec), dict(tables), schema.Place(source))
        spec = msgspec.convert(fitted, Spec)
    if spec.env == EnvSpec() and spec.run.command is None:
        raise schema.Place(source).refuse(
            "env is missing; give a Gymnasium id, such as 'CartPole-v1', or a run.command"
        )
    return spec


def _laid(
    preset: PresetFile,
    bases: Callable[[str], PresetFile],
    assignments: Sequence[Assignment],
    machine: MachineTables | None = None,
) -> Layers:
    if preset.launch:
        raise preset.place.refuse(f"'{preset.name}' is a set; launch its presets: {', '.join(preset.launch)}")
    layers = Layers(preset.place)
    if preset.extends is not None:
        base = _base(preset, preset.extends, bases)
        layers.add_layer(base.place, base.table)
    layers.add_layer(preset.place, preset.table)
    if machine is not None:
        layers.add_layer(*machine)
    layers.assign(assignments)
    return layers


def _base(preset: PresetFile, name: str, bases: Callable[[str], PresetFile]) -> PresetFile:
    try:
        base = bases(name)
    except UsageError as unknown:
        raise preset.place.refuse(f"extends: {unknown}") from None
    if base.extends is not None or base.launch:
        what = f"itself extends '{base.extends}'" if base.extends else "is a set of presets"
        raise preset.place.refuse(f"extends = '{name}' is one level too deep: {base.path} {what}")
    return base


def _written(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _written(item) for name, item in value.items() if item is not None}
    return list(value) if isinstance(value, tuple) else value


class Layers:
    """The layers of one spec. `place` is what a message names when no layer wrote the field in question."""

    def __init__(self, place: schema.Place) -> None:
        self._place = place
        self._tables: dict[str, dict[str, Any]] = {name: {} for name in schema.TABLES}
        self._writers: dict[str, str] = {}

    def add_layer(self, place: schema.Place, tables: Mapping[str, Mapping[str, object]]) -> None:
        """Put fitted `tables` on top. A budget, in steps or seconds, replaces the budget of the layers below."""
        self._make_room(tables.get("run", {}))
        self._leave_algorithm(tables.get("run", {}).get("algo"))
        for table, fields in tables.items():
            for name, value in fields.items():
                adds = schema.merges(schema.field_of(table, name, place.at(table)).type)
                below = self._tables[table].get(name)
                self._tables[table][name] = _merged(below, value) if adds else deepcopy(value)
                self._wrote(table, name, place)

    def add_bottom_layer(self, place: schema.Place, tables: Mapping[str, Mapping[str, object]]) -> None:
        """Put fitted `tables` at the bottom: they fill in what no layer so far has written."""
        for table, fields in tables.items():
            for name, value in fields.items():
                above = self._tables[table].get(name)
                self._tables[table][name] = deepcopy(value) if above is None else _merged(value, above)
                self._writers.setdefault(f"{table}.{name}", place.source)

    def assign(self, assignments: Sequence[Assignment]) -> None:
        """Put the words of one command line on top, as one layer. Raises `PresetError`."""
        keys = {assignment.key for assignment in assignments if assignment.value is not None}
        self._make_room({budget for budget in _BUDGETS if f"run.{budget}" in keys})
        algos = [it.value for it in assignments if it.key == "run.algo"]
        self._leave_algorithm(getattr(algos[-1], "text", algos[-1]) if algos else None)
        for assignment in assignments:
            self._assign(assignment)

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """What all layers together have written, table by table; those in which nobody wrote are absent."""
        return {name: deepcopy(table) for name, table in self._tables.items() if table}

    def draft(self, name: str, description: str) -> Spec:
        """The spec of preset `name` so far, contradictions and all. Raises `PresetError` without an environment."""
        if "id" not in self._tables["env"] and "command" not in self._tables["run"]:
            place = schema.Place(self._last_writer(("env.id",)))
            raise place.refuse("env.id is missing; give a Gymnasium id, such as 'CartPole-v1', or a run.command")
        return msgspec.convert({"preset": name, "description": description, **self._completed()}, Spec)

    def finish(self, name: str, description: str) -> Spec:
        """The spec of preset `name`. Raises `PresetError` for a missing environment or a contradiction."""
        spec = self.draft(name, description)
        for violation in violations(spec):
            raise schema.Place(self._last_writer(violation.keys)).refuse(violation.sentence)
        return spec

    def _completed(self) -> dict[str, dict[str, Any]]:
        """The tables, with that of the algorithm that trains and without the empty ones of others.

        All but PPO, A2C and TRPO have one environment where nobody wrote how many, as in Stable-Baselines3: each
        further one would take from the gradient steps for a transition, and ARS plays in one.
        """
        other = other_algorithm(self._tables["run"].get("algo"))
        tables = {
            name: table
            for name, table in self._tables.items()
            if table or name not in OTHERS or (other is not None and name == other.name)
        }
        if other is not None and not issubclass(other.table, OnPolicySpec):
            tables["env"] = {"n_envs": 1, **tables["env"]}
        return tables

    def _leave_algorithm(self, algo: object) -> None:
        """Another algorithm takes nothing over from the settings of the one below it."""
        was = self._tables["run"].get("algo") or "ppo"
        if algo is None or algo == was:
            return
        self._tables["ppo" if was not in OTHERS else was] = {}

    def _assign(self, assignment: Assignment) -> None:
        place = schema.Place(assignment.source)
        table, *path = assignment.key.split(".")
        if table not in schema.TABLES:
            raise schema.unknown_key(place.at(table), table, schema.TABLES)
        if not path or len(path) > _DEEPEST_KEY:
            raise place.refuse(
                f"{format_quantity(assignment.key)} is not the key of a setting, such as {table}.{_first(table)}"
            )
        field = schema.field_of(table, path[0], place.at(table))
        value = _with(self._tables[table].get(path[0]), path[1:], assignment.value)
        if value is None:
            self._tables[table].pop(path[0], None)
        else:
            self._tables[table][path[0]] = schema.fit(field.type, value, place.at(table).at(path[0]), field.default)
        self._wrote(table, path[0], place)

    def _make_room(self, written: Mapping[str, object] | set[str]) -> None:
        if any(budget in written for budget in _BUDGETS):
            for budget in _BUDGETS:
                self._tables["run"].pop(budget, None)

    def _wrote(self, table: str, name: str, place: schema.Place) -> None:
        self._writers.pop(f"{table}.{name}", None)
        self._writers[f"{table}.{name}"] = place.source

    def _last_writer(self, keys: Sequence[str]) -> str:
        return next((self._writers[key] for key in reversed(self._writers) if key in keys), self._place.source)


def _first(table: str) -> str:
    return schema.TABLES[table].fields[0].name


def _merged(below: object, above: object) -> object:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return deepcopy(above)
    return {**below, **{name: _merged(below.get(name), value) for name, value in above.items()}}


def _with(current: object, path: Sequence[str], value: object) -> object:
    """`current` with `value` at `path` inside it; None takes what is there away."""
    if not path:
        return value
    table = dict(current) if isinstance(current, dict) else {}
    inner = _with(table.get(path[0]), path[1:], value)
    if inner is None:
        table.pop(path[0], None)
    else:
        table[path[0]] = inner
    return table


def check_live(spec: Spec, words: Sequence[str]) -> None:
    """Raise `UsageError`, naming the nearest key that can, unless each of `words` is for a setting that can be changed
    while a run of `spec` trains, and gives it one value.
    """
    runs = expand(words)
    if len(runs) != 1 or not words:
        rate = live_keys(spec.run.algo)[0][0]
        raise UsageError(f"give at least one KEY=VALUE, with one value each, such as {rate}=1e-4")
    for assignment in runs[0]:
        key = assignment.key
        keys, scheduled = live_keys(spec.run.algo)
        if key in keys or key.rpartition(".")[0] in scheduled:
            if key == "ppo.batch_size" and spec.run.compile:
                raise UsageError(f"{key}: with run.compile every shape was compiled at the start; stop it, then resume")
            continue
        with suppress(PresetError):
            for _, sentence in complaints_about_unused_tables(draft_change(spec, words)):
                raise UsageError(sentence)
        raise UsageError(f"{format_quantity(key)} {_why_not(key, keys)}")


def live_keys(algo: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The keys that can be changed while a run of `algo` (as in `run.algo`) trains, and which may be schedules."""
    other = other_algorithm(algo)
    if other is None:
        return LIVE_KEYS, _SCHEDULED
    scheduled = tuple(f"{other.name}.{name}" for name in other.scheduled)
    return (*scheduled, *(key for key in LIVE_KEYS if not key.startswith("ppo."))), scheduled


def is_live(key: str) -> bool:
    """Whether `key` can be changed while some run trains."""
    table, _, name = key.partition(".")
    other = other_algorithm(table)
    return key in LIVE_KEYS or (other is not None and name in other.scheduled)


def _why_not(key: str, keys: Sequence[str]) -> str:
    table, _, name = key.partition(".")
    known = table in schema.TABLES and name.split(".")[0] in {field.name for field in schema.TABLES[table].fields}
    if known:
        return (
            f"cannot be changed while a run trains: stop it, then resume --set {key}=...; these can: {', '.join(keys)}"
        )
    bare = {live.partition(".")[2]: live for live in keys}
    near = nearest(key, (*keys, *bare))
    for short, whole in bare.items():
        near = near.replace(f"'{short}'", f"'{whole}'")
    listed = ", ".join(keys)
    return f"is not a setting of a run{near or f'; these can be changed while it trains: {listed}'}"


def with_words(spec: Spec, changes: Iterable[Sequence[str]]) -> Spec:
    """`spec` after each of `changes`, which are `--set` words, one after the other. Raises `MissionError`."""
    for words in changes:
        spec = change(spec, words)
    return spec
