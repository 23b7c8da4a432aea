"""What a run folder of SB3 or its zoo holds: logs, models, statistics and settings, by their usual names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mission_tui.errors import UsageError
from mission_tui.records.logs.event_files import event_files

__all__ = ["Sb3Folder", "find_folder"]

_TABLES = ("progress.csv", "progress.json")
_MONITOR = "monitor.csv"
_MOST_FILES = 10_000


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
        raise UsageError(f"{path} is not a folder; name the one with progress.csv or monitor.csv of a run")
    if (path / "spec.toml").is_file() and (path / "events.jsonl").is_file():
        raise UsageError(f"{path} is a run of mission-tui already; move it into the runs root to see it there")
    inside = _files(path)
    # The zoo keeps settings and statistics one folder deeper, by the name of the environment.
    deeper = [file for it in sorted(path.iterdir()) if it.is_dir() for file in _files(it)]
    monitors = [file for file in inside if file.name.endswith(_MONITOR)]
    table = next((path / name for name in _TABLES if path / name in inside), None)
    events = event_files(path)
    if table is None and not monitors and not events:
        raise UsageError(
            f"{path} holds no log of a training (progress.csv, progress.json, monitor.csv, TensorBoard events); "
            "import-checkpoint takes a zip alone"
        )
    return Sb3Folder(
        path=path,
        table=table,
        events=events,
        monitors=monitors,
        zips=[file for file in inside if file.suffix == ".zip"],
        statistics=[it for it in (*inside, *deeper) if it.suffix == ".pkl" and "vecnormalize" in it.name],
        settings=_first(inside, deeper, "config.yml"),
        arguments=_first(inside, deeper, "args.yml"),
        played=_first(inside, deeper, "evaluations.npz"),
    )


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
