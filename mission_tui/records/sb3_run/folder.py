"""What a run folder of SB3 or its zoo holds, by the usual names, and its logs as records of ours.

The table's updates come with the episodes of the monitors, or these alone where there is no table.

And what the folder says of the settings it was trained with, as the tables of a preset. The zoo's `config.yml` and
`args.yml` count most, then the JSON in the newest model's zip, then the columns of the log, and of CleanRL's log its
table of arguments. What none of them says is SB3's default.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from mission_tui.errors import CheckpointError, PresetError, UsageError
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.specs.env_ids import package_of
from mission_tui.fleet.specs.sb3_algorithms import OtherAlgorithm, other_algorithm
from mission_tui.fleet.specs.spec import PpoSpec, Schedule
from mission_tui.plain_files import open_named
from mission_tui.records.logs import monitors as monitor_logs
from mission_tui.records.logs.event_files import cleanrl_arguments, event_files, read_events
from mission_tui.records.logs.log import LogError, recognize_in_rows, settings_in
from mission_tui.records.logs.read import TABLES, read_log
from mission_tui.records.sb3_run.normalizer_file import normalize_of
from mission_tui.records.sb3_run.zip_file import algorithm_in, check_same, settings_of_zip, tables_of_zip, unopened
from mission_tui.records.sb3_run.zoo_settings import (
    YamlError,
    arguments_table,
    atari_packages,
    read_yaml,
    tables_of_zoo,
)

_MONITOR = "monitor.csv"
_MOST_FILES = 10_000
_BEGAN = re.compile(r"tfevents\.(\d{9,11})\b", re.ASCII)
_ANEW = 2
"""A log that goes back to fewer steps than so many of its first row begins anew; to more, it goes on from a model."""


class Sb3Folder(Struct, frozen=True):
    """The files of one run. `table` is a log with a row an update, None where there is none; `settings` and `arguments`
    are the zoo's `config.yml` and `args.yml`, `statistics` the pickles of `VecNormalize`, `played` `evaluations.npz`.
    `others` are folders with the events of earlier trainings in the same folder, which are not this run.
    """

    path: Path
    table: Path | None = None
    events: Sequence[Path] = ()
    monitors: Sequence[Path] = ()
    zips: Sequence[Path] = ()
    statistics: Sequence[Path] = ()
    settings: Path | None = None
    arguments: Path | None = None
    played: Path | None = None
    others: Sequence[Path] = ()

    def statistics_of(self, model: Path) -> Path | None:
        """The statistics that belong to `model`: those saved with it, else the last ones."""
        beside = model.stem.replace("_model_", "_model_vecnormalize_") + ".pkl"
        exact = [path for path in self.statistics if path.name in (beside, f"{model.stem}.vecnormalize.pkl")]
        last = [path for path in self.statistics if path.name == "vecnormalize.pkl"]
        return next(iter((*exact, *last, *self.statistics[-1:])), None)


def find_folder(path: Path) -> Sb3Folder:
    """The files in `path`, and of the zoo's inner folder of settings. Raises `UsageError` when it holds no log, or
    cannot be read.
    """
    try:
        return _found(path)
    except OSError as error:
        raise UsageError(f"{error.filename or path}: cannot be read: {error.strerror or error}") from None


def _found(path: Path) -> Sb3Folder:
    if not path.is_dir():
        near = f": {path.parent}" if path.is_file() and _has_log(path.parent) else ""
        raise UsageError(f"{path} is not a folder; name the one with progress.csv or monitor.csv of a run{near}")
    if (path / "spec.toml").is_file() and (path / "events.jsonl").is_file():
        raise UsageError(f"{path} is a run of mission-tui already; move it into the runs root to see it there")
    inside = _files(path)
    # The zoo keeps settings and statistics one folder deeper, by the name of the environment.
    deeper = [file for it in sorted(path.iterdir()) if it.is_dir() for file in _files(it)]
    monitors = [file for file in inside if file.name.endswith(_MONITOR)]
    table = next((path / name for name in TABLES if path / name in inside), None)
    zips = [file for file in inside if file.suffix == ".zip"]
    played = _first(inside, deeper, "evaluations.npz")
    # What `tensorboard_log` names lies deeper: tb/PPO_1. A folder of nothing but folders is that of several runs.
    events, others = event_files(path), list[Path]()
    if not events and (monitors or zips or played):
        trainings = _trainings_below(path)
        events = trainings[-1] if trainings else []
        others = [files[0].parent for files in trainings[:-1]]
    if table is None and not monitors and not events and (played is None or played.parent != path):
        raise UsageError(
            f"{path} holds no log of a training (progress.csv, progress.json, monitor.csv, TensorBoard events, "
            "evaluations.npz); "
            f"{_where_else(path) or 'import-checkpoint takes a zip alone'}"
        )
    return Sb3Folder(
        path=path,
        table=table,
        events=events,
        monitors=monitors,
        zips=zips,
        statistics=[it for it in (*inside, *deeper) if it.suffix == ".pkl" and "vecnormalize" in it.name],
        settings=_first(inside, deeper, "config.yml"),
        arguments=_first(inside, deeper, "args.yml"),
        played=played,
        others=others,
    )


def _trainings_below(path: Path) -> list[list[Path]]:
    """The event files of each folder one or two below `path` that has some, the one written last at the end."""
    found = [it for depth in ("*", "*/*") for it in islice(path.glob(depth), _MOST_FILES) if it.is_dir()]
    written = [(_written_t(files), files) for it in found if (files := event_files(it))]
    return [files for _, files in sorted(written)]


def _written_t(files: Sequence[Path]) -> float:
    return max(file.stat().st_mtime for file in files)


def without_strangers(folder: Sb3Folder, updates: Sequence[UpdateDone]) -> tuple[Sb3Folder, tuple[str, ...]]:
    """The folder with those of its zips that belong to the training of its `updates`, and sentences about what was left
    out: other trainings, and zips that stand beyond the log's end, have another learning rate, or were written when
    another of its trainings was.

    As it is where one training is there: then a model that does not fit is the log's fault. Raises `OSError`.
    """
    if not folder.others:
        return folder, ()
    listed = ", ".join(str(it.relative_to(folder.path)) for it in folder.others)
    are = "is another training" if len(folder.others) == 1 else "are other trainings"
    notes = [f"{listed} {are} and left out: {folder.events[0].parent.name} is the newest; -r takes each as its own run"]
    own: list[Path] = []
    for path in folder.zips:
        if why := _stranger(path, folder, updates):
            notes.append(f"{path.name} was left out: {why}")
        else:
            own.append(path)
    return replace(folder, zips=own), tuple(notes)


def _stranger(model: Path, folder: Sb3Folder, updates: Sequence[UpdateDone]) -> str:
    """Why the zip `model` is not of the training of `updates`; empty where it may be."""
    newest = folder.events[0].parent.name
    try:
        data = settings_of_zip(model)
    except CheckpointError:
        return ""  # said where it is read
    steps, end = data.get("num_timesteps"), updates[-1].timesteps if updates else 0
    # A model may be saved within the rollout after the last row.
    room = end - updates[-2].timesteps if len(updates) > 1 else end
    if type(steps) is int and end and steps > end + room:
        return f"it stands at {steps:,} steps, and {newest} ends at {end:,}"
    rate, logged = data.get("learning_rate"), settings_in(updates).learning_rate
    if isinstance(rate, float) and isinstance(logged, float) and not math.isclose(rate, logged, rel_tol=1e-3):
        return f"it was trained with learning_rate = {rate:g}, and {newest} with {logged:g}"
    written = model.stat().st_mtime
    trainings = [(_away_s(written, folder.events), 0, newest)]
    trainings += [(_away_s(written, event_files(it)), 1, it.name) for it in folder.others]
    nearest = min(trainings)
    return f"it was written when {nearest[2]} was" if nearest[1] else ""


def _away_s(t: float, files: Sequence[Path]) -> float:
    """How far unix time `t` is from the training that wrote the event `files`, whose names say when it began."""
    said = [int(match[1]) for file in files if (match := _BEGAN.search(file.name)) is not None]
    began, ended = min(said, default=_written_t(files)), _written_t(files)
    return max(0.0, began - t, t - ended)


def run_folders(path: Path) -> Iterator[Path]:
    """The folders at and below `path` that are each a run of SB3, in the order of names; what is in one is its own.

    Links are not followed, and run directories of mission-tui are none. Raises `UsageError` where `path` is no folder.
    """
    if not path.is_dir():
        raise UsageError(f"{path} is not a folder")
    for here, folders, files in os.walk(path):
        folders.sort()
        if "spec.toml" in files and "events.jsonl" in files:
            folders.clear()
        elif any(name in TABLES or name.endswith(_MONITOR) or "tfevents" in name for name in files):
            yield Path(here)
            folders.clear()
        elif any(name.endswith(".zip") or name == "evaluations.npz" for name in files):
            trainings = _trainings_below(Path(here))
            if len(trainings) > 1:
                yield from sorted(files_of[0].parent for files_of in trainings)
                folders.clear()
            elif trainings or "evaluations.npz" in files:
                yield Path(here)
                folders.clear()


def models_above(folder: Path, root: Path) -> Path | None:
    """The folder at or below `root` whose zips may be of the training whose events `folder` has; None where none is."""
    for above in (folder.parent, folder.parent.parent):
        if not above.is_relative_to(root):
            return None
        if any(it.suffix == ".zip" for it in islice(above.iterdir(), _MOST_FILES)):
            return above
    return None


def _where_else(path: Path) -> str:
    """Which folders around `path` are the run, or runs, that it was meant to name; empty where there is none."""
    if _has_log(path.parent):
        return f"its parent does: {path.parent}"
    for depth in ("*", "*/*"):
        runs = [it for it in sorted(islice(path.glob(depth), _MOST_FILES)) if _has_log(it)]
        if runs:
            others = f" ({len(runs)} are there)" if len(runs) > 1 else ""
            return f"name one of its runs: {runs[0]}{others}"
    return ""


def _has_log(path: Path) -> bool:
    try:
        names = [it.name for it in islice(path.iterdir(), _MOST_FILES)] if path.is_dir() else []
    except OSError:
        return False
    return any(name in TABLES or name.endswith(_MONITOR) for name in names)


def _files(path: Path) -> list[Path]:
    found = [it for it in sorted(path.iterdir()) if it.is_file()]
    if len(found) > _MOST_FILES:
        raise UsageError(f"{path} holds {len(found)} files; name the folder of one run")
    return found


def _first(inside: Sequence[Path], deeper: Sequence[Path], name: str) -> Path | None:
    found = [file for file in inside if file.name == name] or [file for file in deeper if file.name == name]
    if len(found) > 1:
        raise UsageError(f"there are several {name}: {found[0]} and {found[1]}; name the folder of one run")
    return found[0] if found else None


def updates_in_table(folder: Sb3Folder) -> tuple[tuple[UpdateDone, ...], tuple[str, ...]]:
    """The updates of the log with a row each, another attempt wherever it was begun or gone on with anew, and what of
    it could not be used.

    Nothing where there is no such log, or none that can be read beside monitors. Raises `LogError` naming the file, and
    `PresetError` for the log of another algorithm.
    """
    damage: list[str] = []
    readers = [partial(read_log, folder.table)] if folder.table is not None else []
    readers += [partial(read_events, folder.path, folder.events, to_import=True)] if folder.events else []
    for at, read in enumerate(readers, 1):
        try:
            log = read()
        except LogError as error:
            if at == len(readers) and not folder.monitors:
                raise
            damage.append(f"{error}; the folder's other logs count")
            continue
        updates = log.updates_done
        return tuple(_counted_on(updates)), (*damage, *log.damage)
    return (), tuple(damage)


def episodes_of(folder: Sb3Folder, frames: int = 1) -> list[monitor_logs.Ended]:
    """The monitors' episodes in the order of their ends, at the agent's steps.

    Atari's monitors lie below the wrapper that skips `frames` - 1 of so many, and count all of them.
    """
    episodes = monitor_logs.read_monitors(folder.monitors)
    return [replace(it, steps=it.steps // frames) for it in episodes] if frames > 1 else episodes


def rows_of(
    folder: Sb3Folder, table: Sequence[UpdateDone], rollout: int, window: int = monitor_logs.WINDOW, frames: int = 1
) -> tuple[UpdateDone, ...]:
    """The run's updates: `table` where it has any, else one for every `rollout` steps of the monitors' episodes, with
    means over the last `window` of them; `frames` as `episodes_of` takes them.

    Times that no log says are 0; where speeds are not known by update, the monitors' average stands for each. Raises
    `LogError` when there is no row, `OSError`.
    """
    episodes = episodes_of(folder, frames)
    rows = (
        tuple(_with_episodes(table, episodes))
        if table
        else tuple(monitor_logs.updates_of_episodes(episodes, rollout, window))
    )
    if not rows:
        raise LogError(f"{folder.path}: tells of no update and no episode yet")
    return rows


def trained_to(rows: Sequence[UpdateDone], steps: int, rollout: int) -> tuple[UpdateDone, ...]:
    """The monitors' `rows` up to the `steps` of a model of theirs: what came after the last episode that ended.

    As they are where that would be more than `MOST_ROWS`.
    """
    last = rows[-1]
    if not last.timesteps < steps <= rollout * monitor_logs.MOST_ROWS:
        return tuple(rows)
    later = [
        replace(
            last, seq=number, update=number, timesteps=min(number * rollout, steps), episodes=monitor_logs.sample_of(())
        )
        for number in range(last.update + 1, math.ceil(steps / rollout) + 1)
    ]
    return (*rows[:-1], replace(last, timesteps=min(last.update * rollout, steps)), *later)


def _counted_on(updates: Sequence[UpdateDone]) -> list[UpdateDone]:
    """Steps that begin anew, because `learn` was called again, are counted on. Where the training went on from an
    earlier model, the rows after that one are taken back.
    """
    rows: list[UpdateDone] = []
    before = lost = 0
    for update in updates:
        if rows and update.timesteps + before < rows[-1].timesteps:
            last = rows[-1]
            if update.timesteps <= _ANEW * updates[0].timesteps:
                before = last.timesteps
            else:
                while rows and rows[-1].timesteps >= update.timesteps + before:
                    rows.pop()
                lost += last.update - (rows[-1].update if rows else 0)
        rows.append(
            replace(
                update,
                seq=len(rows) + 1,
                update=update.update - lost,
                timesteps=update.timesteps + before,
            )
        )
    return rows


def _with_episodes(table: Sequence[UpdateDone], episodes: Sequence[monitor_logs.Ended]) -> Iterator[UpdateDone]:
    at, pace = 0, monitor_logs.pace_of(episodes)
    for update in table:
        begin = at
        while at < len(episodes) and episodes[at].steps <= update.timesteps:
            at += 1
        t = update.t or monitor_logs.moment_of(episodes, at, update.timesteps)
        ended = monitor_logs.sample_of(episodes[begin:at]) if at > begin else update.episodes
        yield replace(update, t=t, episodes=ended, steps_per_s=update.steps_per_s or pace)


Tables = dict[str, dict[str, Any]]
_YAML_CHARACTERS = 1 << 20


class FoundSettings(Struct, frozen=True):
    """Tables of a preset; `source` is the file that said most of it; `notes` are what could not be taken over."""

    tables: Tables
    source: Path
    notes: tuple[str, ...] = field(default=())


def find_settings(folder: Sb3Folder, updates: Sequence[UpdateDone], *, zips: bool, env: bool = True) -> FoundSettings:
    """The settings; with `zips` models are asked too, without `env` the environment is not looked for.

    Raises `PresetError` naming the file that cannot be used, and for a folder that does not say on which environment
    it was trained.
    """
    notes: list[str] = []
    models = _models(folder.zips) if zips else {}
    newest = max(models, key=lambda path: _steps(models[path]), default=None)
    layers: list[Tables] = [_of_cleanrl(folder.events), _of_log(updates)]
    unread: list[str] = []
    if newest is not None:
        layers.append(tables_of_zip(models[newest], newest.name, unread))
    arguments = _yaml(folder.arguments)
    if folder.settings is not None:
        layers.append(tables_of_zoo(_yaml(folder.settings), str(folder.settings), notes))
    layers.append(arguments_table(arguments, str(folder.arguments), notes))
    tables: Tables = {"env": {}, "ppo": {}, "run": {}}
    for layer in layers:
        for name, values in layer.items():
            tables[name] = tables.get(name, {}) | values
    if (other := _other(tables, updates, [models[path] for path in models], folder)) is not None:
        return _of_other(other, tables, folder, updates, notes + unread, newest, zips=zips, env=env)
    if newest is not None:
        said = {unopened(newest.name, name) for name in tables["ppo"]}
        notes[:0] = [note for note in unread if note not in said]
    if env and "id" not in tables["env"]:
        tables["env"]["id"] = _env_of(folder)
    _complete(tables, folder, updates, notes, zips=zips)
    source = folder.settings or newest or folder.table or folder.path
    return FoundSettings(tables, source, tuple(notes))


def _other(
    tables: Tables, updates: Sequence[UpdateDone], models: Sequence[Mapping[str, Any]], folder: Sb3Folder
) -> OtherAlgorithm | None:
    """The algorithm beside PPO that trained, by the zoo's `args.yml`, the models, or what the log tells."""
    if (said := other_algorithm(tables["run"].get("algo"))) is not None:
        return said
    if models:
        return check_same([algorithm_in(data) for data in models], str(folder.path))
    told = recognize_in_rows(updates)
    name = None if told is None or told.algorithm is None else told.algorithm.name.lower()
    return other_algorithm(name)


def _of_other(
    other: OtherAlgorithm,
    tables: Tables,
    folder: Sb3Folder,
    updates: Sequence[UpdateDone],
    notes: list[str],
    newest: Path | None,
    *,
    zips: bool,
    env: bool,
) -> FoundSettings:
    """The settings of another algorithm: what the zip says, else its defaults."""
    if folder.settings is not None:
        source = "its defaults" if newest is None else newest.name
        notes.append(f"{folder.settings.name} is not read for {other.called}: settings are those of {source}")
    elif newest is None:
        notes.append(
            f"the log does not say with which settings {other.called} was trained: SB3's defaults stand for them"
        )
    found: Tables = {name: tables.get(name, {}) for name in ("env", "run", other.name)}
    found["run"]["algo"] = other.name
    if env and "id" not in found["env"]:
        found["env"]["id"] = _env_of(folder)
    if "n_envs" not in found["env"]:
        found["env"]["n_envs"] = max(1, len(folder.monitors))
    if "total_timesteps" not in found["run"] and updates:
        found["run"]["total_timesteps"] = updates[-1].timesteps
    if "normalize" not in found["env"] and folder.statistics:
        found["env"]["normalize"] = normalize_of(folder.statistics[-1]) if zips else True
    return FoundSettings(found, newest or folder.table or folder.path, tuple(notes))


def _complete(
    tables: Tables, folder: Sb3Folder, updates: Sequence[UpdateDone], notes: list[str], *, zips: bool
) -> None:
    """What only the rest of the folder tells: how many environments, the rollout, the budget, and the normalizer."""
    env, ppo, run = tables["env"], tables["ppo"], tables["run"]
    rollout = settings_in(updates).rollout
    if "n_envs" not in env:
        env["n_envs"] = max(1, len(folder.monitors))
    is_count = type(env["n_envs"]) is int and env["n_envs"] > 0  # anything else is refused as every preset's is
    if "n_steps" not in ppo and rollout is not None and is_count:
        if rollout % env["n_envs"] or not folder.monitors:
            env["n_envs"] = 1
            notes.append(
                f"how many environments there were is not said: the log's updates of {rollout:,} steps are taken as 1 "
                "environment's; --set env.n_envs and ppo.n_steps say it better"
            )
        ppo["n_steps"] = rollout // env["n_envs"]
    _fit_minibatch(env, ppo, notes)
    if "total_timesteps" not in run:
        last = updates[-1].timesteps if updates else 0
        if last:
            run["total_timesteps"] = last
    if "normalize" not in env and folder.statistics:
        # Its moments are of use to weights alone.
        env["normalize"] = normalize_of(folder.statistics[-1]) if zips else True
    if (package := package_of(str(env.get("id")))) is not None:
        # The zoo imports it without a word in its settings.
        env["imports"] = list(dict.fromkeys((*env.get("imports", ()), package, *atari_packages(env))))


def _fit_minibatch(env: Mapping[str, Any], ppo: dict[str, Any], notes: list[str]) -> None:
    """A minibatch larger than the rollout is the whole rollout: SB3 takes one slice, which ends with the rollout."""
    n_envs, n_steps, size = env["n_envs"], ppo.get("n_steps", PpoSpec().n_steps), ppo.get("batch_size")
    if not all(type(it) is int and it > 0 for it in (n_envs, n_steps, size)) or size <= n_envs * n_steps:
        return
    ppo["batch_size"] = n_envs * n_steps
    notes.append(
        f"batch_size = {size:,} is larger than the rollout of {n_envs * n_steps:,}, which SB3 then takes as "
        f"one minibatch: taken over as {n_envs * n_steps:,}"
    )


def _env_of(folder: Sb3Folder) -> str:
    """By a monitor's first line, or the zoo's name of the folder (`CartPole-v1_3`, with settings in `CartPole-v1`)."""
    for path in folder.monitors:
        try:
            with os.fdopen(open_named(path), encoding="utf-8", errors="replace") as file:
                said = json.loads(file.readline(4096).removeprefix("#"))["env_id"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(said, str) and said not in ("", "None"):
            return said
    match = re.fullmatch(r"(.+-v\d+)_\d+", folder.path.name)
    if match is not None:
        return match[1]
    raise PresetError(
        f"{folder.path}: nothing in it says on which environment it was trained (args.yml, the first line of a "
        "monitor.csv, a folder name such as CartPole-v1_1): say it with --set env.id=..., or take --preset"
    )


def _of_log(updates: Sequence[UpdateDone]) -> Tables:
    known = settings_in(updates)
    said = {"learning_rate": known.learning_rate, "n_epochs": known.n_epochs}
    ppo: dict[str, Any] = {name: _written(value) for name, value in said.items() if value is not None}
    if any("train/clip_range" in row.metrics for row in updates):
        ppo["clip_range"] = _written(known.clip_range)
    return {"ppo": ppo}


_OF_CLEANRL = {
    "num_envs": "env.n_envs", "num_steps": "ppo.n_steps", "minibatch_size": "ppo.batch_size",
    "update_epochs": "ppo.n_epochs", "gamma": "ppo.gamma", "gae_lambda": "ppo.gae_lambda",
    "clip_coef": "ppo.clip_range", "norm_adv": "ppo.normalize_advantage", "ent_coef": "ppo.ent_coef",
    "vf_coef": "ppo.vf_coef", "max_grad_norm": "ppo.max_grad_norm", "target_kl": "ppo.target_kl", "seed": "run.seed",
    "total_timesteps": "run.total_timesteps",
}  # fmt: skip
_COUNTS = {"n_envs": 1, "n_steps": 1, "batch_size": 1, "n_epochs": 1, "total_timesteps": 1, "seed": 0}
"""The least that each may be."""
_HALF_OF_SQUARES = 0.5
"""CleanRL's loss of the values, where SB3's is the mean of the squares: its coefficient is of half of them."""


def _of_cleanrl(events: Sequence[Path]) -> Tables:
    """What CleanRL's script says of its arguments. Its rate is in the log, also where it goes down."""
    try:
        words = cleanrl_arguments(events)
    except LogError:
        words = {}  # whoever reads its rows says it
    tables: Tables = {}
    for theirs, ours in _OF_CLEANRL.items():
        table, _, name = ours.partition(".")
        value = _plain(words.get(theirs, ""))
        if name in _COUNTS and (type(value) is not int or value < _COUNTS[name]):
            continue
        if value is not None:
            tables.setdefault(table, {})[name] = value * _HALF_OF_SQUARES if name == "vf_coef" else value
    if env_id := words.get("env_id", words.get("gym_id")):
        tables["env"] = {**tables.get("env", {}), "id": env_id}
    if words.get("clip_vloss") == "True" and "clip_range" in tables.get("ppo", {}):
        tables["ppo"]["clip_range_vf"] = tables["ppo"]["clip_range"]
    return tables


def _plain(word: str) -> int | float | bool | None:
    """The finite number or the truth that `word` is; None for all else, as for Python's None."""
    if word in ("True", "False"):
        return word == "True"
    try:
        value = int(word) if re.fullmatch(r"[0-9]{1,15}", word) else float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _written(value: object) -> object:
    return {"start": value.start, "end": value.end} if isinstance(value, Schedule) else value


def _models(zips: Sequence[Path]) -> dict[Path, dict[str, Any]]:
    """What the zips say that can be read. Raises `CheckpointError` when there are some and none can."""
    models: dict[Path, dict[str, Any]] = {}
    first: CheckpointError | None = None
    for path in zips:
        try:
            models[path] = settings_of_zip(path)
        except CheckpointError as error:
            first = first or error
    if first is not None and not models:
        raise first
    return models


def _steps(data: Mapping[str, Any]) -> int:
    steps = data.get("num_timesteps")
    return steps if type(steps) is int else -1


def _yaml(path: Path | None) -> object:
    if path is None:
        return None
    try:
        with os.fdopen(open_named(path), encoding="utf-8") as file:
            return read_yaml(file.read(_YAML_CHARACTERS))
    except (YamlError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as the settings of a run: {error}") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
