"""`mission-tui metrics`: every record a run's trainer wrote, read from the file itself.

Rows that a later attempt took back (it began from an earlier checkpoint) are left out and counted.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mission_tui.cli.errors import print_error
from mission_tui.cli.options import json_option, run_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.errors import MissionError, UsageError

if TYPE_CHECKING:
    from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone

COLUMNS = ("update", "attempt", "timesteps", "t", "rollout_s", "update_s", "steps_per_s")
SHOWN = ("rollout/ep_rew_mean", "rollout/ep_len_mean", "train/approx_kl", "train/explained_variance")
TABLE_ROWS = 20


@click.command("metrics")
@run_argument()
@click.option("--csv", "as_csv", is_flag=True, help="Every update as CSV, a column per metric.")
@json_option
@pass_session
def command(session: Session, run: str, as_csv: bool, as_json: bool) -> None:
    """Print the metrics of a run's updates."""
    from mission_tui.cli.follow_runs import view_of

    if as_csv and as_json:
        raise UsageError("give --json or --csv, not both")
    with session.connect() as connection:
        view = view_of(connection, run)
    kept, rewound = _records(Path(view.run_dir))
    if as_json:
        import msgspec

        from mission_tui.cli.tables.documents import write_document

        write_document({"run": view.id, "records": [msgspec.to_builtins(it) for it in kept], "rewound": rewound})
    elif as_csv:
        _write_csv(_updates(kept))
    else:
        _write_table(_updates(kept)[-TABLE_ROWS:])


def _records(run_dir: Path) -> tuple[list[MetricRecord], list[int]]:
    """What counts of `metrics.jsonl`, in file order, and the `seq` of the rows that later attempts took back."""
    from mission_tui.fleet.events.metrics import MetricRecord, counted_records
    from mission_tui.records.files.tail import read_all
    from mission_tui.records.runs.layout import RunDir

    path = RunDir(run_dir).metrics
    try:
        records, damage = read_all(path, MetricRecord)
    except OSError as error:
        raise MissionError(f"{path} cannot be read: {error.strerror or error}") from error
    for sentence in damage:
        print_error(sentence)
    return counted_records(records)


def _updates(records: list[MetricRecord]) -> list[UpdateDone]:
    from mission_tui.fleet.events.metrics import UpdateDone

    return [record for record in records if isinstance(record, UpdateDone)]


def _write_csv(updates: list[UpdateDone]) -> None:
    from mission_tui.cli.tables.numbers import inert
    from mission_tui.cli.terminal_output import CsvRows
    from mission_tui.fleet.text import clean_line

    tags = sorted({tag for it in updates for tag in it.metrics})
    rows = CsvRows()
    rows.add([*COLUMNS, *(inert(clean_line(tag)) for tag in tags)])
    for it in updates:
        rows.add([*(getattr(it, column) for column in COLUMNS), *(it.metrics.get(tag, "") for tag in tags)])


def _write_table(updates: list[UpdateDone]) -> None:
    from mission_tui.cli.tables.numbers import UNKNOWN, count, measure
    from mission_tui.cli.tables.table import Table

    heads = ("update", "timesteps", "rollout_s", "update_s", "steps/s", *(tag.partition("/")[2] for tag in SHOWN))
    table = Table(heads, numbers=frozenset(heads))
    for it in updates:
        # Nobody timed the phases of an imported run, and 0 is how its rows say so.
        timed = it.rollout_s + it.update_s > 0.0
        phases = [f"{spent_s:.2f}" if timed else UNKNOWN for spent_s in (it.rollout_s, it.update_s)]
        facts = (count(it.update), count(it.timesteps), *phases, count(it.steps_per_s or None))
        table.add(*facts, *(measure(it.metrics.get(tag)) for tag in SHOWN))
    table.write(sys.stdout)
