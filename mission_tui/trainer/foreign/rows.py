"""The whole of an imported run's records: its beginning, its updates, what `evaluations.npz` says, and its end."""

from __future__ import annotations

import zipfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec import structs

from mission_tui.fleet.history.lineage import IMPORTED
from mission_tui.fleet.history.metrics import (
    EvaluationDone,
    MetricRecord,
    TrainingEnded,
    TrainingStarted,
    UpdateDone,
    spoken,
)

__all__ = ["evaluations_of", "records_of"]

MOST_BYTES = 256 << 20


def evaluations_of(path: Path | None, rows: Sequence[UpdateDone], notes: list[str]) -> list[EvaluationDone]:
    """The evaluations in the `EvalCallback` file at `path`, each with the update it came after; none without a file.

    What cannot be read as plain numbers is left out, and `notes` says so.
    """
    if path is None:
        return []
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > MOST_BYTES:
                notes.append(f"{path.name} is larger than evaluations are, and was left out")
                return []
        with np.load(path, allow_pickle=False) as kept:
            steps, results = kept["timesteps"].astype(int).tolist(), kept["results"].astype(float)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError) as error:
        notes.append(f"{path.name} was left out: {error}")
        return []
    played = []
    for timesteps, returns in zip(steps, results, strict=False):
        at = bisect_right(rows, timesteps, key=lambda row: row.timesteps)
        update = rows[at - 1].update if at else 0
        t = rows[max(0, at - 1)].t
        mean, std = spoken(float(np.mean(returns))), spoken(float(np.std(returns)))
        played.append(EvaluationDone(0, 1, update, timesteps, t, mean, std, int(np.size(returns))))
    return played


def records_of(
    rows: Sequence[UpdateDone],
    played: Sequence[EvaluationDone],
    total: int | None,
    checkpoint: str | None,
    written_t: float,
) -> list[MetricRecord]:
    """All records in order, numbered by nobody yet. Times that no log said are `written_t`; none goes back."""
    last = rows[-1]
    between: list[UpdateDone | EvaluationDone] = [*rows, *played]
    between.sort(key=lambda it: (it.update, isinstance(it, EvaluationDone)))
    how: Literal["finished", "stopped"] = "finished" if total is not None and last.timesteps >= total else "stopped"
    start = TrainingStarted(0, 1, next((row.t for row in rows if row.t), written_t))
    end = TrainingEnded(0, 1, last.update, last.timesteps, written_t, how, cause=IMPORTED, checkpoint=checkpoint)
    return list(_in_time([start, *between, end], written_t))


def _in_time(records: Sequence[MetricRecord], written_t: float) -> Iterator[MetricRecord]:
    before = 0.0
    for record in records:
        before = max(before, record.t or written_t)
        yield structs.replace(record, t=before)
