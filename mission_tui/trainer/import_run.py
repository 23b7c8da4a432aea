"""``python -m mission_tui.trainer.import_run FOLDER RUN_DIR --run ID``: a folder of stock SB3 as a run.

The spec comes as JSON on stdin. Logs are read as text. With `--models` what the spec asks for is built, the process
takes every right away that reading does not need, and only then zips and statistics are opened.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import zipfile
import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np
from msgspec import structs

from mission_tui.errors import CheckpointError, UsageError
from mission_tui.fleet.events import journal, metrics
from mission_tui.fleet.events.outcome import Stopped
from mission_tui.fleet.events.provenance import IMPORTED
from mission_tui.fleet.health.replay import replay
from mission_tui.fleet.specs.algorithm import learning_table
from mission_tui.fleet.specs.spec import Spec, parse_part, rollout_size
from mission_tui.plain_files import open_named
from mission_tui.records.jsonl import AppendLog, encode_line
from mission_tui.records.logs.log import LogError
from mission_tui.records.logs.monitors import Ended
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.sb3_run import folder as sb3_folder
from mission_tui.records.sb3_run.zip_file import settings_of_zip
from mission_tui.trainer.process import Say, answer, asked_spec, cap_threads, lower_priority

if TYPE_CHECKING:
    from mission_tui.trainer.learner import Learner


MOST_FINDINGS = 500
MOST_PAUSES = 500
ATARI_SKIP = 4
MOST_BYTES = 256 << 20
_MOST_STEPS = 2**53


@dataclass
class _Import:
    """One import at work: what was asked for, and what is to be said about it."""

    folder: sb3_folder.Sb3Folder
    run: str
    into: RunDir
    spec: Spec
    raw: bytes
    notes: list[str] = field(default_factory=list)
    of_monitors: bool = False
    """Whether the rows are those of the monitors, which know of no step after the last episode that ended."""

    def rows(self) -> tuple[metrics.UpdateDone, ...]:
        table, damage = sb3_folder.updates_in_table(self.folder)
        self.notes += damage
        # Which they are was said before anything was asked.
        self.folder, _ = sb3_folder.without_strangers(self.folder, table)
        if not table and not self.folder.monitors and self.folder.played is not None:
            return rows_of_evaluations(self.folder, rollout_size(self.spec), self.notes)
        self.of_monitors = not table
        window = window_of(self.spec)
        return sb3_folder.rows_of(self.folder, table, rollout_size(self.spec), window, _frames_a_step(self.spec))

    def episodes_before(self, timesteps: int) -> list[dict[str, float]]:
        """The last episodes of the monitors that had ended at `timesteps`, as `Monitor` tells of them: what a resume
        compares its return with.
        """
        at = bisect_right(self.ended, timesteps, key=lambda it: it.steps)
        recent = self.ended[max(0, at - window_of(self.spec)) : at]
        return [{"r": it.r, "l": it.length, "t": it.after_s} for it in recent if math.isfinite(it.r)]

    @cached_property
    def ended(self) -> Sequence[Ended]:
        """The episodes of the monitors, in the order of their ends."""
        return sb3_folder.episodes_of(self.folder, _frames_a_step(self.spec))


def rows_of_evaluations(folder: sb3_folder.Sb3Folder, rollout: int, notes: list[str]) -> tuple[metrics.UpdateDone, ...]:
    """An update for each evaluation of a folder without a log, and one for its longest model where that has trained on:
    what stands in them is the evaluations' alone. Times and speeds are 0. Raises `LogError` where there is none.
    """
    steps = sorted({it.timesteps for it in evaluations_of(folder.played, (), notes)})
    if not steps:
        raise LogError(f"{folder.path}: holds no log of a training, and evaluations.npz no evaluation")
    notes.append("there is no log: its updates are those after which it was evaluated, and have the evaluations alone")
    rows: list[metrics.UpdateDone] = []
    for timesteps in sorted({*steps, max(steps[-1], _most_steps(folder.zips))}):
        update = max(len(rows) + 1, math.ceil(timesteps / rollout), rows[-1].update + 1 if rows else 0)
        rows.append(metrics.UpdateDone(len(rows) + 1, 1, update, timesteps, 0.0, 0.0, 0.0, 0.0))
    return tuple(rows)


def window_of(spec: Spec) -> int:
    """How many episodes the mean return is over."""
    return int(getattr(learning_table(spec)[1], "stats_window_size", 100))


def _frames_a_step(spec: Spec) -> int:
    """How many frames of the monitored environments are a step of the agent: SB3's wrapper of Atari skips some."""
    parts = [part for part in map(parse_part, spec.env.wrappers) if part.cls.endswith(":AtariWrapper")]
    skip = parts[0].kwargs.get("frame_skip", ATARI_SKIP) if parts else 1
    return skip if type(skip) is int and skip > 0 else 1


def main(arguments: list[str] | None = None) -> int:
    """Import; returns the exit code."""
    parser = argparse.ArgumentParser(prog="mission_tui.trainer.import_run", description="Import an SB3 run folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--run", required=True)
    parser.add_argument("--models", action="store_true")
    parsed = parser.parse_args(arguments)
    lower_priority(own_session=False)
    cap_threads(1)
    return answer(lambda say: _import(parsed, say))


def _import(parsed: argparse.Namespace, say: Say) -> None:
    raw = sys.stdin.buffer.read()
    work = _Import(sb3_folder.find_folder(parsed.folder), parsed.run, RunDir(parsed.run_dir), asked_spec(raw), raw)
    rows = work.rows()
    newest = None
    if parsed.models and work.folder.zips:
        newest, rows = _models(work, rows)
    played = evaluations_of(work.folder.played, rows, work.notes)
    pauses = _pauses(rows)
    rows = tuple(structs.replace(row, attempt=1) for row in rows)
    records = _records_of(rows, played, work.spec.run.total_timesteps, newest, _written_t(work.folder))
    _write(work.into.metrics, records)
    findings = replay({1: work.spec}, records, _story(records, pauses))[-MOST_FINDINGS:]
    result = {
        "updates": rows[-1].update,
        "timesteps": rows[-1].timesteps,
        "finished": rows[-1].timesteps >= (work.spec.run.total_timesteps or sys.maxsize),
        "began_t": records[0].t,
        "ended_t": records[-1].t,
        "pauses": pauses[-MOST_PAUSES:],
        "findings": msgspec.to_builtins(findings),
        "notes": work.notes,
    }
    say({"result": result})


def _models(work: _Import, rows: tuple[metrics.UpdateDone, ...]) -> tuple[str, tuple[metrics.UpdateDone, ...]]:
    """Each model of the folder that can be read as a checkpoint; the name of the newest, and the rows up to it.

    Raises `CheckpointError` when there is none; one that cannot be read beside others is left out, and named.
    """
    from mission_tui.trainer.import_checkpoint import confine, model_for
    from mission_tui.trainer.torch_compiler import use_plain_optimizers
    from mission_tui.trainer.vec_env import build_vec_env, in_this_process

    use_plain_optimizers()
    rules = work.into.snapshot if work.into.snapshot.is_dir() else None
    vec = build_vec_env(in_this_process(work.spec), rules).vec
    saved: dict[int, tuple[str, str]] = {}
    refused: list[CheckpointError] = []
    try:
        model = model_for(work.spec, vec)
        largest = max(work.folder.zips, key=lambda path: path.stat().st_size)
        confine(largest, work.into.checkpoints, sum(len(encode_line(row)) for row in rows))
        if work.of_monitors:
            rows = sb3_folder.trained_to(rows, _most_steps(work.folder.zips), rollout_size(work.spec))
        for path in work.folder.zips:
            try:
                _save_model(work, path, model, rows, saved)
            except CheckpointError as error:
                refused.append(error)
    finally:
        with suppress(Exception):  # a confined environment may not be able to end in order, and nothing hangs on it
            vec.close()
    if not saved:
        raise refused[0]
    work.notes += [f"left out: {error}" for error in refused]
    return saved[max(saved)][0], rows


def _most_steps(zips: Sequence[Path]) -> int:
    """The steps of the model that has trained longest, as its JSON says; 0 where none can be read."""
    said = []
    for path in zips:
        with suppress(CheckpointError):
            said.append(settings_of_zip(path).get("num_timesteps"))
    return max((it for it in said if type(it) is int and it <= _MOST_STEPS), default=0)


def _save_model(
    work: _Import, path: Path, model: Learner, rows: Sequence[metrics.UpdateDone], saved: dict[int, tuple[str, str]]
) -> None:
    """The model in the zip `path` as a checkpoint; `saved` has name and file of those there are, by their steps."""
    from mission_tui.trainer.import_checkpoint import foreign_boundary, read_foreign, save_foreign

    foreign = read_foreign(path)
    if foreign.timesteps in saved:
        work.notes.append(f"{path.name} stands at the step of {saved[foreign.timesteps][1]}, which was taken")
        return
    _statistics(work, path, model.get_vec_normalize_env())
    model.ep_info_buffer = deque(work.episodes_before(foreign.timesteps), maxlen=window_of(work.spec))
    try:
        boundary = foreign_boundary(model, foreign, work.spec, _update_at(rows, foreign.timesteps))
    except CheckpointError as error:
        raise CheckpointError(f"{path.name}: {error}") from None
    saved[foreign.timesteps] = (save_foreign(work.into.checkpoints, work.run, boundary, work.raw, work.spec), path.name)


def _statistics(work: _Import, model: Path, normalizer: object) -> None:
    from stable_baselines3.common.vec_env import VecNormalize

    from mission_tui.trainer.import_checkpoint import put_statistics

    beside = work.folder.statistics_of(model)
    if not isinstance(normalizer, VecNormalize):
        if beside is not None and beside.name not in str(work.notes):
            work.notes.append(f"{beside.name} was not used, because env.normalize = false")
        return
    if beside is None:
        raise UsageError(
            f"{model.name} was trained with env.normalize and {work.folder.path} holds no vecnormalize.pkl: without "
            "its statistics the policy sees other inputs; put the file there, or take --logs-only"
        )
    put_statistics(normalizer, beside)


def _update_at(rows: Sequence[metrics.UpdateDone], timesteps: int) -> int:
    """The update that the run stood at then."""
    at = bisect_right(rows, timesteps, key=lambda row: row.timesteps)
    return rows[at - 1].update if at else 0


def _written_t(folder: sb3_folder.Sb3Folder) -> float:
    """When the log was last written, unix time: what stands for times that it does not say."""
    logs = [it for it in (folder.table, *folder.events, *folder.monitors) if it is not None]
    logs = logs or [it for it in (folder.played, *folder.zips) if it is not None]
    return max(path.stat().st_mtime for path in logs)


def _write(path: Path, records: Sequence[metrics.MetricRecord]) -> None:
    log = AppendLog(path, sync_every_s=10.0)
    try:
        for record in records:
            log.append(lambda seq, record=record: msgspec.structs.replace(record, seq=seq))  # type: ignore[misc]
    finally:
        log.close()


def evaluations_of(
    path: Path | None, rows: Sequence[metrics.UpdateDone], notes: list[str]
) -> list[metrics.EvaluationDone]:
    """The evaluations in the `EvalCallback` file at `path`, each with the update it came after; none without a file.

    What cannot be read as plain numbers is left out, and `notes` says so.
    """
    if path is None:
        return []
    try:
        with os.fdopen(open_named(path), "rb") as file:
            with zipfile.ZipFile(file) as archive:
                if sum(member.file_size for member in archive.infolist()) > MOST_BYTES:
                    notes.append(f"{path.name} is larger than evaluations are, and was left out")
                    return []
            file.seek(0)
            with np.load(file, allow_pickle=False) as kept:
                steps, results = kept["timesteps"].astype(float), kept["results"].astype(float)
    except (
        OSError, ValueError, KeyError, TypeError, EOFError, MemoryError, zlib.error, zipfile.BadZipFile
    ) as error:  # fmt: skip
        notes.append(f"{path.name} was left out: {error}")
        return []
    if steps.ndim != 1 or results.ndim != 2 or not results.size:
        notes.append(f"{path.name} was left out: it holds no list of steps with the returns at each")
        return []
    played, nowhere = [], 0
    for said, returns in zip(steps.tolist(), results, strict=False):
        if not 0.0 <= said <= _MOST_STEPS:
            nowhere += 1
            continue
        timesteps = int(said)
        at = bisect_right(rows, timesteps, key=lambda row: row.timesteps)
        update = rows[at - 1].update if at else 0
        t = rows[max(0, at - 1)].t if rows else 0.0
        mean, std = metrics.spoken(float(np.mean(returns))), metrics.spoken(float(np.std(returns)))
        played.append(metrics.EvaluationDone(0, 1, update, timesteps, t, mean, std, int(np.size(returns))))
    if nowhere:
        notes.append(f"{path.name}: {nowhere} of its evaluations stand at no number of steps, and were left out")
    return played


def _records_of(
    rows: Sequence[metrics.UpdateDone],
    played: Sequence[metrics.EvaluationDone],
    total: int | None,
    checkpoint: str | None,
    written_t: float,
) -> list[metrics.MetricRecord]:
    """All records in order. Times that no log said are `written_t`; none goes back. It ended at its last row where that
    has a time: the file may have been copied since.
    """
    last = rows[-1]
    between: list[metrics.UpdateDone | metrics.EvaluationDone] = [*rows, *played]
    between.sort(key=lambda it: (it.update, isinstance(it, metrics.EvaluationDone)))
    how: Literal["finished", "stopped"] = "finished" if total is not None and last.timesteps >= total else "stopped"
    start = metrics.TrainingStarted(0, 1, next((row.t for row in rows if row.t and math.isfinite(row.t)), written_t))
    end = metrics.TrainingEnded(
        0, 1, last.update, last.timesteps, last.t or written_t, how, cause=IMPORTED, checkpoint=checkpoint
    )
    return list(_in_time([start, *between, end], written_t))


def _in_time(records: Sequence[metrics.MetricRecord], written_t: float) -> Iterator[metrics.MetricRecord]:
    before = 0.0
    for seq, record in enumerate(records, 1):
        before = max(before, record.t if record.t and math.isfinite(record.t) else written_t)
        yield structs.replace(record, seq=seq, t=before)


def _pauses(rows: Sequence[metrics.UpdateDone]) -> list[tuple[float, float]]:
    """From when to when (unix time) nothing trained, because somebody went on with it later."""
    return [
        (before.t, after.t)
        for before, after in pairwise(rows)
        if after.attempt != before.attempt and after.t > before.t > 0.0 and math.isfinite(after.t)
    ]


def _story(
    records: Sequence[metrics.MetricRecord], pauses: Sequence[tuple[float, float]]
) -> tuple[journal.FleetEvent, ...]:
    """The journal that the run will have, as far as judging asks for it."""
    story: list[journal.FleetEvent] = [journal.AttemptStarting(1, records[0].t, 1)]
    for began, ended in pauses:
        story.append(journal.RunPaused(len(story) + 1, began, 1))
        story.append(journal.RunResumed(len(story) + 1, ended, 1))
    return (*story, journal.AttemptEnded(len(story) + 1, records[-1].t, 1, Stopped(None, IMPORTED)))


if __name__ == "__main__":
    sys.exit(main())
