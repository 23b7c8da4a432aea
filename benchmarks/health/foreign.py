"""The same training as a stranger's log: what stock SB3 would have written of it, read the way `judge` reads a file.

SB3 writes the metrics of an update with the rollout that follows it, counts no episodes, has no gradient norms, ratios,
outcomes or seconds, and says nothing of its settings but what its columns betray.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from benchmarks.health.cases import Case
from mission_tui.fleet.events.metrics import UpdateDone, number
from mission_tui.records.logs.log import TableRow, log_of_rows

__all__ = ["UNHEARD", "as_foreign"]

EXPLAINED = "train/explained_variance"
OF_SB3 = frozenset(
    {
        "train/approx_kl",
        "train/clip_fraction",
        "train/clip_range",
        "train/entropy_loss",
        EXPLAINED,
        "train/learning_rate",
        "train/loss",
        "train/n_updates",
        "train/policy_gradient_loss",
        "train/std",
        "train/value_loss",
    }
)
UNHEARD = frozenset(
    {
        "hang",
        "throughput",
        "ratio",
        "grad-norm",
        "outcomes",
        "checkpoint-age",
        "resume-probe",
        "actions-at-bound",
        "nan",
    }
)
"""Rules that read what such a log does not hold. `nan` is among them: the trainer's own last word is not in it."""


def as_foreign(case: Case) -> Case | None:
    """`case` as SB3's table; None of a run that was resumed, which SB3 would have begun a new file for."""
    if case.resumed or any(row.attempt > 1 for row in case.rows):
        return None
    rows: list[TableRow] = []
    before: dict[str, float] = {}
    for row in case.rows:
        known = {tag: value for tag, metric in row.metrics.items() if (value := number(metric)) is not None}
        cells = {"time/iterations": float(row.update), "time/total_timesteps": float(row.timesteps), **before}
        cells |= {tag: value for tag, value in known.items() if tag.startswith("rollout/")}
        # Of returns that do not vary ours leave the explained variance out, and SB3 says nan.
        before = {EXPLAINED: math.nan} | {tag: value for tag, value in known.items() if tag in OF_SB3}
        rows.append(TableRow(cells))
    log = log_of_rows(Path(case.name), rows, [])
    rules = tuple(rule for rule in case.rules if rule not in UNHEARD)
    return replace(
        case,
        name=f"{case.name} (as a foreign log)",
        source="foreign",
        records=tuple(record for record in log.records if isinstance(record, UpdateDone)),
        settings=log.settings,
        rules=rules,
        busy=(),
    )
