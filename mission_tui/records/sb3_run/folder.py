"""What a run folder of SB3 or its zoo holds, by the usual names, and its logs as records of ours.

The table's updates come with the episodes of the monitors, or these alone where there is no table.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from msgspec import structs

from mission_tui.errors import PresetError, UsageError
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.health.algorithms import other_called
from mission_tui.records.logs import monitors as monitor_logs
from mission_tui.records.logs.event_files import event_files, read_events
from mission_tui.records.logs.log import LogError, told_in
from mission_tui.records.logs.read import read_log

_TABLES = ("progress.csv", "progress.json")
_MONITOR = "monitor.csv"
_MOST_FILES = 10_000
_ANEW = 2
"""A log that goes back to fewer steps than so many of its first row begins anew; to more, it goes on from a model."""


@dataclass(frozen=True, slots=True)
class Sb3Folder:
    """The files of one run. `table` is a log with a row an update, None where there is none; `settings` and `arguments`
    are the zoo's `config.yml` and `args.yml`, `statistics` the pickles of `VecNormalize`, `played` `evaluations.npz`.
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
    table = next((path / name for name in _TABLES if path / name in inside), None)
    zips = [file for file in inside if file.suffix == ".zip"]
    played = _first(inside, deeper, "evaluations.npz")
    # What `tensorboard_log` names lies deeper: tb/PPO_1. A folder of nothing but folders is that of several runs.
    events = event_files(path) or (_newest_events(path) if monitors or zips or played else [])
    if table is None and not monitors and not events:
        raise UsageError(
            f"{path} holds no log of a training (progress.csv, progress.json, monitor.csv, TensorBoard events); "
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
    )


def _newest_events(path: Path) -> list[Path]:
    """The event files one or two folders below `path`; of several folders, those of the one written last."""
    found = [it for depth in ("*", "*/*") for it in islice(path.glob(depth), _MOST_FILES) if it.is_dir()]
    written = [(max(file.stat().st_mtime for file in files), files) for it in found if (files := event_files(it))]
    return max(written)[1] if written else []


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
        elif any(name in _TABLES or name.endswith(_MONITOR) or "tfevents" in name for name in files) or (
            any(name.endswith(".zip") or name == "evaluations.npz" for name in files) and _newest_events(Path(here))
        ):
            yield Path(here)
            folders.clear()


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
    return any(name in _TABLES or name.endswith(_MONITOR) for name in names)


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
    readers += [partial(read_events, folder.path, folder.events)] if folder.events else []
    for at, read in enumerate(readers, 1):
        try:
            log = read()
        except LogError as error:
            if at == len(readers) and not folder.monitors:
                raise
            damage.append(f"{error}; the folder's other logs count")
            continue
        updates = log.updates_done
        _check_algorithm(log.path, updates)
        return tuple(_counted_on(updates)), (*damage, *log.damage)
    return (), tuple(damage)


def _check_algorithm(path: Path, updates: Sequence[UpdateDone]) -> None:
    told = told_in(updates)
    if told is None or told.algorithm is None:
        return
    if other_called(told.algorithm.name) is None or told.algorithm.name == "ARS":
        raise PresetError(
            f"{path}: is the log of another algorithm (it has {told.tag} and no train/approx_kl), which cannot be "
            "trained here; only runs of PPO and its neighbours are taken over"
        )


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
