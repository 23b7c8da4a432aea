"""What a run folder of SB3 or its zoo holds, by the usual names, and its logs as records of ours.

The table's updates come with the episodes of the monitors, or these alone where there is no table.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from msgspec import Struct, structs
from msgspec.structs import replace

from mission_tui.errors import CheckpointError, UsageError
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.records.logs import monitors as monitor_logs
from mission_tui.records.logs.event_files import event_files, read_events
from mission_tui.records.logs.log import LogError, settings_in
from mission_tui.records.logs.read import TABLES, read_log
from mission_tui.records.sb3_run.zip_file import settings_of_zip

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
    """The updates of the log with a row each, all of one attempt, and what of it could not be used.

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
        structs.replace(
            last, seq=number, update=number, timesteps=min(number * rollout, steps), episodes=monitor_logs.sample_of(())
        )
        for number in range(last.update + 1, math.ceil(steps / rollout) + 1)
    ]
    return (*rows[:-1], structs.replace(last, timesteps=min(last.update * rollout, steps)), *later)


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
            structs.replace(
                update,
                seq=len(rows) + 1,
                attempt=1,
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
        yield structs.replace(update, t=t, episodes=ended, steps_per_s=update.steps_per_s or pace)
