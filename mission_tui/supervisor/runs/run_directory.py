"""Run directories come and go in one step: built under a temporary name and renamed, renamed away and then removed.

So a crash leaves a whole run or none; what it interrupted is swept up at the next start.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import mission_tui
from mission_tui.errors import PresetError
from mission_tui.fleet.events.journal import FleetEvent, RunCreated
from mission_tui.fleet.events.provenance import Origin
from mission_tui.fleet.events.trials import TrialBranch
from mission_tui.fleet.resume.verdict import Terms
from mission_tui.fleet.specs.spec import MISSION_GYM, EnvSpec, Spec
from mission_tui.plain_files import make_folder, names_in, read_given, remove_tree
from mission_tui.records.atomic import storing, sync_folder
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.attempt import LaunchOrder, write_spec, write_terms
from mission_tui.records.runs.checkpoint import verify_checkpoint
from mission_tui.records.runs.code_files import write_rules
from mission_tui.records.runs.layout import RunDir, supervisor_dir
from mission_tui.records.runs.seal import Seals
from mission_tui.records.runs.trash import REMOVING
from mission_tui.supervisor.runs.journal import requester

_MISSIONS = Path(mission_tui.__file__).parent / "envs" / "missions"
_RULE_FILES = ("world.toml", "units.toml", "rules.toml", "rewards.toml")
MAKING = "making-"
RULE_BYTES = 4 << 20


def create_run(
    root: Path,
    seals: Seals,
    run: RunDir,
    spec: Spec,
    order: LaunchOrder,
    rules: Sequence[Path],
    name: str,
    group: str | None,
    origin: Origin | None = None,
    fill: Callable[[RunDir], None] | None = None,
    story: Sequence[Callable[[int, float], FleetEvent]] = (),
    after: tuple[str, ...] = (),
    trial: TrialBranch | None = None,
    created_t: float | None = None,
    probe: bool = False,
) -> FleetEvent:
    """Make `run` with everything its first attempt needs; its first event. `fill` adds what a branch takes along.

    `story` are events that follow the first: those of an attempt that was over before the run came here. `created_t`
    is when it was made then, unix time.

    It begins once the runs `after` (ids) have ended; `trial` says of which trial it is a branch, `probe` that nothing
    of it is to stay. Raises `StorageError` with nothing made.
    """
    making = RunDir(supervisor_dir(root) / f"{MAKING}{run.id}")
    try:
        with storing(run.path, "make"):
            making.path.mkdir(mode=0o700)
            make_folder(making.attempt(order.attempt).path)
        write_spec(making.spec, spec)
        seals.write_order(making, order, run.id)
        write_snapshot(making, rules)
        if fill is not None:
            fill(making)
        events = AppendLog(making.events)
        try:
            make_first = partial(
                RunCreated,
                name=name,
                preset=spec.preset,
                group=group,
                origin=origin,
                after=after,
                trial=trial,
                probe=probe,
            )
            created = events.append(lambda seq: make_first(seq, created_t or time.time(), asker=requester()))
            for make in story:
                events.append(partial(_event_now, make))
        finally:
            events.close()
        with storing(run.path, "make"):
            making.path.rename(run.path)
            sync_folder(root)
    finally:
        shutil.rmtree(making.path, ignore_errors=True)
    return created


def _event_now(make: Callable[[int, float], FleetEvent], seq: int) -> FleetEvent:
    return make(seq, time.time())


def take_checkpoint(checkpoint: Path, folder: Path, terms: Terms, making: RunDir) -> None:
    """What `fill` does for a branch: the checkpoint's files into `folder` of `making`, read back, and the terms.

    Raises `CheckpointError` and `StorageError`.
    """
    # First: what is no plain file, or has no end, is not copied at all.
    verify_checkpoint(checkpoint)
    with storing(folder, "write"):
        make_folder(folder)
        shutil.copytree(checkpoint, folder / checkpoint.name, symlinks=True)
    verify_checkpoint(folder / checkpoint.name)
    write_terms(making.attempt(1).terms, terms)


def remove_run(root: Path, run: RunDir) -> None:
    """Remove the directory of a run of which nothing lives. Raises `StorageError`."""
    removing = supervisor_dir(root) / f"{REMOVING}{run.id}"
    with storing(run.path, "remove"):
        run.path.rename(removing)
        sync_folder(root)
        remove_tree(removing)


def half_made(root: Path) -> list[Path]:
    """What a supervisor that was killed was making or removing; listed before anything new is made."""
    return [
        supervisor_dir(root) / name for name in names_in(supervisor_dir(root)) if name.startswith((MAKING, REMOVING))
    ]


def sweep_up(folders: Sequence[Path]) -> None:
    """Remove what was found half made. Anything may lie there, so it may take long."""
    for folder in folders:
        with suppress(OSError):
            remove_tree(folder)


def rule_files(env: EnvSpec, cwd: str) -> list[Path]:
    """The rules of a MissionGym as files: of a shipped mission, or of a folder seen from `cwd`; none for other envs.

    Raises `PresetError` naming the file that is missing.
    """
    if env.id != MISSION_GYM:
        return []
    config = env.config or "standard"
    folder = _MISSIONS / config if (_MISSIONS / config).is_dir() else Path(cwd) / Path(config).expanduser()
    files = [folder / name for name in _RULE_FILES]
    for file in files:
        if not file.is_file():
            raise PresetError(f"env.config = '{config}': {file} is missing; a mission needs {', '.join(_RULE_FILES)}")
    return files


def write_snapshot(run: RunDir, rules: Sequence[Path]) -> None:
    """Keep the rule files as they are now: training and every later evaluation read only these."""
    if not rules:
        return
    with storing(run.snapshot, "write"):
        contents = {file.name: read_given(file, RULE_BYTES) for file in rules}
    write_rules(run.snapshot, contents)
