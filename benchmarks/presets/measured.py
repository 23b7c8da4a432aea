"""What a preset's training came to so far, read from its run directory, and the file in which that is kept.

Nothing is worked out beyond the last step that was trained. A figure of a mission that has changed since is of no use,
so each says of which mission it is.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from benchmarks.campaign import put
from benchmarks.presets.ends import Ends
from mission_tui.envs import mission_files
from mission_tui.fleet.events.metrics import (
    CheckpointSaved,
    EvaluationDone,
    MetricRecord,
    UpdateDone,
    counted_records,
    number,
)

__all__ = [
    "PRESETS",
    "TRAININGS",
    "WINNING",
    "Kept",
    "Measured",
    "Played",
    "Point",
    "keep",
    "mission_digest",
    "played_of",
    "points_of",
    "read_kept",
    "share_won",
    "shares",
    "slug",
]

PRESETS = ("standard", "fast", "heavy", "beast", "large-batch", "wide", "deep", "swarm")
TRAININGS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(PRESETS, ()),
    "swarm ppo.ent_coef=0.005 ppo.learning_rate=5e-4": ("ppo.ent_coef=0.005", "ppo.learning_rate=5e-4"),
}
"""By the name of its row the words of each training: a preset as it stands, and what is said to mend one."""
WINNING = ("captured", "early_success")
"""Outcomes that count as won in the shipped missions."""
POINTS = 80
"""Places of a curve: enough for a picture, few enough for a file that people look at."""


class Point(msgspec.Struct, frozen=True, omit_defaults=True):
    """Updates in a row, up to `steps`: medians of KL and clip fraction, and of the episodes that ended the won."""

    steps: int
    kl: float | None = None
    clip: float | None = None
    won: float | None = None


class Played(msgspec.Struct, frozen=True):
    """The policy at `steps`, played by an evaluation beside the training."""

    steps: int
    won: float


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One preset. `rollout_share` is of the seconds trained; `evaluation_share` are those in which a checkpoint
    was evaluated, of the same; `cores` is the mean that its processes kept busy; `outcomes` are those at the end.
    """

    mission: str
    seed: int
    steps: int
    budget: int
    updates: int
    attempts: int
    trained_s: float
    rollout_share: float
    evaluation_share: float
    cores: float | None
    memory_bytes: int | None
    won: float
    outcomes: dict[str, int]
    gradient_steps: int
    points: tuple[Point, ...] = ()
    played: tuple[Played, ...] = ()
    words: tuple[str, ...] = ()
    """`--set` words of where it trained, which change nothing that it learns from."""
    beside: int = 0
    """Other presets that trained on the machine at the same time."""


class Kept(msgspec.Struct, kw_only=True):
    """`docs/presets-measured.json`: by preset what was measured, by mission its ends, by preset the machine."""

    presets: dict[str, Measured] = {}
    ends: dict[str, Ends] = {}
    machine: dict[str, dict[str, str]] = {}


def read_kept(file: Path) -> Kept:
    """What the file holds; nothing where there is none."""
    return msgspec.json.decode(file.read_bytes(), type=Kept) if file.exists() else Kept()


def keep(kept: Kept, file: Path) -> None:
    """Write the file anew."""
    put(file, kept)


def slug(name: str) -> str:
    """The name of a row as a run, or a file, can bear it."""
    return "".join(char if char.isalnum() or char in ".-" else "-" for char in name)


def mission_digest(config: str) -> str:
    """Eight digits that differ where a rule of the mission does."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in mission_files(config))).hexdigest()[:8]


def points_of(records: Iterable[MetricRecord]) -> tuple[Point, ...]:
    """The updates that count, thinned to `POINTS` places of equally many."""
    rows = [row for row in counted_records(records)[0] if isinstance(row, UpdateDone)]
    places = min(POINTS, len(rows))
    edges = [len(rows) * place // places for place in range(places + 1)] if places else []
    return tuple(_point(rows[first:last]) for first, last in pairwise(edges))


def _point(rows: Sequence[UpdateDone]) -> Point:
    ended = sum(row.episodes.n for row in rows)
    won = sum(row.episodes.outcomes.get(name, 0) for row in rows for name in WINNING)
    return Point(
        rows[-1].timesteps,
        _median(rows, "train/approx_kl"),
        _median(rows, "train/clip_fraction"),
        round(won / ended, 4) if ended else None,
    )


def _median(rows: Sequence[UpdateDone], tag: str) -> float | None:
    values = [value for row in rows if (value := number(row.metrics.get(tag))) is not None]
    return float(f"{statistics.median(values):.4g}") if values else None


def shares(records: Sequence[MetricRecord], ended_t: dict[str, float]) -> tuple[float, float]:
    """Of the seconds trained, those in rollouts, and those in which a checkpoint was being evaluated.

    `ended_t` says when (unix s) the evaluation of each checkpoint was over; it began when that was saved, or when the
    one before it was over.
    """
    rows = [row for row in counted_records(records)[0] if isinstance(row, UpdateDone)]
    rollout_s, update_s = sum(row.rollout_s for row in rows), sum(row.update_s for row in rows)
    lived_s, free_t = 0.0, 0.0
    for saved in (record for record in records if isinstance(record, CheckpointSaved)):
        if (over_t := ended_t.get(saved.name)) is not None and over_t > saved.t:
            lived_s += over_t - max(saved.t, free_t)
            free_t = over_t
    trained_s = rollout_s + update_s
    return (rollout_s / trained_s, lived_s / trained_s) if trained_s else (0.0, 0.0)


def played_of(records: Iterable[MetricRecord]) -> tuple[Played, ...]:
    """The evaluations during training, in order."""
    counted = counted_records(records)[0]
    return tuple(
        Played(it.timesteps, it.won) for it in counted if isinstance(it, EvaluationDone) and it.won is not None
    )


def share_won(outcomes: dict[str, int]) -> float:
    """Of all episodes counted in `outcomes`."""
    return sum(outcomes.get(name, 0) for name in WINNING) / max(1, sum(outcomes.values()))
