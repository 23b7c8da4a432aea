"""The whole of an imported run's records: its beginning, its updates, what `evaluations.npz` says, and its end."""

from __future__ import annotations

import math
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec import structs

from mission_tui.fleet.events.metrics import (
    EvaluationDone,
    MetricRecord,
    TrainingEnded,
    TrainingStarted,
    UpdateDone,
    spoken,
)
from mission_tui.fleet.events.provenance import IMPORTED

__all__ = ["evaluations_of", "records_of"]

MOST_BYTES = 256 << 20
_MOST_STEPS = 2**53


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
            steps, results = kept["timesteps"].astype(float), kept["results"].astype(float)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zlib.error, zipfile.BadZipFile) as error:
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
        t = rows[max(0, at - 1)].t
        mean, std = spoken(float(np.mean(returns))), spoken(float(np.std(returns)))
        played.append(EvaluationDone(0, 1, update, timesteps, t, mean, std, int(np.size(returns))))
    if nowhere:
        notes.append(f"{path.name}: {nowhere} of its evaluations stand at no number of steps, and were left out")
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
    start = TrainingStarted(0, 1, next((row.t for row in rows if row.t and math.isfinite(row.t)), written_t))
    end = TrainingEnded(0, 1, last.update, last.timesteps, written_t, how, cause=IMPORTED, checkpoint=checkpoint)
    return list(_in_time([start, *between, end], written_t))


def _in_time(records: Sequence[MetricRecord], written_t: float) -> Iterator[MetricRecord]:
    before = 0.0
    for record in records:
        before = max(before, record.t if record.t and math.isfinite(record.t) else written_t)
        yield structs.replace(record, t=before)
