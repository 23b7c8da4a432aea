"""What a run put out: `logs` has what its trainer and environments printed, `metrics` every record of its updates.

Logs come from the supervisor, which has already taken out what a terminal would act on; metrics are read from the file
itself. Rows that a later attempt took back (it began from an earlier checkpoint) are left out and counted.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mission_tui.cli.follow_runs import view_of, views_of
from mission_tui.cli.options import examples, json_option, run_argument, runs_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import CsvRows, Table, inert, print_error, write, write_over
from mission_tui.errors import MissionError, UsageError, install_words
from mission_tui.fleet.text import as_left, clean_line

if TYPE_CHECKING:
    from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
    from mission_tui.fleet.views.snapshot import RunView


FOLLOW_S = 0.3
COLUMNS = ("update", "attempt", "timesteps", "t", "rollout_s", "update_s", "steps_per_s", "trained_s")
SHOWN = ("rollout/ep_rew_mean", "rollout/ep_len_mean", "train/approx_kl", "train/explained_variance")
TABLE_ROWS = 20


@click.command(
    "logs",
    epilog=examples(
        "logs @last -f",
        "logs @last --grep error",
    ),
)
@run_argument()
@click.option("-f", "--follow", is_flag=True, help="Go on as the output grows, until the run has ended.")
@click.option("--grep", "pattern", metavar="RE", help="Only lines in which this regular expression is found.")
@click.option("--attempt", type=click.IntRange(min=1), help="Output of this attempt (default: the newest).")
@json_option
@pass_session
def logs_command(
    session: Session, run: str, follow: bool, pattern: str | None, attempt: int | None, as_json: bool
) -> None:
    """Print the output of a run."""
    from mission_tui.cli.tables.documents import write_document

    wanted = _compiled(pattern)
    # A progress bar ends no line for hours: a terminal shows it as it stands, written over by what comes next.
    over = follow and wanted is None and not as_json and sys.stdout.isatty()
    for line in whole_lines(_chunks(session, run, attempt, follow), _show_unfinished if over else None):
        if over:
            write_over("", sys.stdout)
        if wanted is None or wanted.search(line):
            if as_json:
                write_document({"line": line})
            else:
                write(line)


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--grep {pattern!r} is not a regular expression: {error}") from None


def _chunks(session: Session, run: str, attempt: int | None, follow: bool) -> Iterator[str]:
    """The output from its start to its end; with `follow` until the run has ended and everything was read."""
    from mission_tui.fleet.events.outcome import OVER
    from mission_tui.ipc.requests import GetLog
    from mission_tui.ipc.sockets import ConnectionLostError

    offset, over = 0, False
    while not over:
        begun = offset
        try:
            # One for all of it: where no supervisor is asked, each is a process that reads every run first.
            with session.connect() as connection:
                # Whether it has ended is asked before its output: then no more will come.
                over = not follow or view_of(connection, run).state in OVER
                size = offset + 1
                while offset < size:
                    at = offset
                    reply = connection.ask(lambda id_: GetLog(id=id_, run=run, offset=at, attempt=attempt))  # noqa: B023
                    size = reply.size
                    # The keeper keeps only the tail of an output that passed its cap: what is there now is new.
                    offset = reply.end if size >= offset else 0
                    if size >= at:
                        yield reply.text
        except ConnectionLostError:
            if not follow and offset == begun:
                raise
            over = False
        else:
            if not over:
                time.sleep(FOLLOW_S)


def whole_lines(chunks: Iterator[str], unfinished: Callable[[str], None] | None = None) -> Iterator[str]:
    """Whole lines of a text that arrives in pieces; an unfinished last line comes at the end, and before that goes to
    `unfinished` as it stands after each piece.
    """
    rest = ""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split("\n")
        yield from map(as_left, whole)
        if rest:
            left = as_left(rest)
            # What was written over is forgotten; a return at the end may be that of the line's end.
            rest = left + rest[len(rest.rstrip("\r")) :]
            if unfinished is not None:
                unfinished(left)
    if rest:
        yield as_left(rest)


def _show_unfinished(line: str) -> None:
    """In one line of the terminal, as more could not be written over."""
    write_over(line[: shutil.get_terminal_size().columns - 1], sys.stdout)


@click.command(
    "metrics",
    epilog=examples(
        "metrics @last",
        "metrics sweep --csv > sweep.csv",
    ),
)
@runs_argument(required=True)
@click.option("--csv", "as_csv", is_flag=True, help="Every update as CSV, a column per metric.")
@click.option("--parquet", metavar="FILE", type=click.Path(path_type=Path), help="The same table into a Parquet file.")
@json_option
@pass_session
def metrics_command(session: Session, runs: tuple[str, ...], as_csv: bool, parquet: Path | None, as_json: bool) -> None:
    """Print the metrics of a run's updates.

    --csv and --parquet take several runs, or a group's name: then each row has its run, seed, and the settings that
    differ.
    """

    if sum((as_csv, as_json, parquet is not None)) > 1:
        raise UsageError("give one of --json, --csv and --parquet, not both")
    if parquet is not None:
        check_parquet(parquet)
    with session.connect() as connection:
        views = views_of(connection, runs)
    if parquet is not None:
        write_parquet(parquet, [Path(view.run_dir) for view in views])
        return
    if len(views) > 1:
        if not as_csv:
            raise UsageError(
                f"these are {len(views)} runs: name one, or give --csv or --parquet, which put them into one table"
            )
        _write_csv_of_many(views)
        return
    from mission_tui.fleet.events.metrics import evaluated_updates

    (view,) = views
    kept, rewound = _records(Path(view.run_dir))
    if as_json:
        import msgspec

        from mission_tui.cli.tables.documents import write_document

        write_document({"run": view.id, "records": [msgspec.to_builtins(it) for it in kept], "rewound": rewound})
    elif as_csv:
        _write_csv(evaluated_updates(kept))
    else:
        _write_table(evaluated_updates(kept)[-TABLE_ROWS:])


def _records(run_dir: Path, say: Callable[[str], None] = print_error) -> tuple[list[MetricRecord], list[int]]:
    """What counts of `metrics.jsonl`, in file order, and the `seq` of the rows that later attempts took back."""
    from mission_tui.fleet.events.metrics import MetricRecord, counted_records
    from mission_tui.records.jsonl import read_all
    from mission_tui.records.runs.layout import RunDir

    path = RunDir(run_dir).metrics
    try:
        records, damage = read_all(path, MetricRecord)
    except OSError as error:
        raise MissionError(f"{path} cannot be read: {error.strerror or error}") from error
    for sentence in damage:
        say(sentence)
    return counted_records(records)


def _write_csv(updates: list[UpdateDone]) -> None:
    _write_rows((), [((), updates)])


def _write_csv_of_many(views: Sequence[RunView]) -> None:
    """One table of all of them: first whose row it is, with what setting and seed."""
    from mission_tui.fleet.comparison_sides import differing_settings
    from mission_tui.fleet.events.metrics import RETURN, evaluated_updates
    from mission_tui.fleet.specs.flat_settings import value_word
    from mission_tui.records.runs.comparison_sides import read_sides

    sides = read_sides([Path(view.run_dir) for view in views], print_error, (RETURN,))[RETURN]
    read = {side.view.id for side in sides}
    views = [view for view in views if view.id in read]
    settings = differing_settings(sides)
    whose = [
        (
            *(view.id, inert(view.name), side.spec.run.seed),
            *("" if row.values[at] is None else inert(value_word(row.values[at])) for row in settings),
        )
        for at, (view, side) in enumerate(zip(views, sides, strict=True))
    ]
    # What is damaged has been said, with whose it is.
    updates = [evaluated_updates(_records(Path(view.run_dir), lambda _: None)[0]) for view in views]
    heads = ("run", "name", "seed", *(inert(row.name) for row in settings))
    _write_rows(heads, list(zip(whose, updates, strict=True)))


def _write_rows(heads: Sequence[str], runs: Sequence[tuple[Sequence[object], list[UpdateDone]]]) -> None:

    tags = sorted({tag for _, updates in runs for it in updates for tag in it.metrics})
    rows = CsvRows()
    rows.add([*heads, *COLUMNS, *(inert(clean_line(tag)) for tag in tags)])
    for whose, updates in runs:
        for it in updates:
            own = (getattr(it, column) for column in COLUMNS)
            rows.add([*whose, *own, *(it.metrics.get(tag, "") for tag in tags)])


def _write_table(updates: list[UpdateDone]) -> None:
    from mission_tui.present.numbers import DASH, count, measure

    heads = ("update", "timesteps", "rollout_s", "update_s", "steps/s", *(tag.partition("/")[2] for tag in SHOWN))
    table = Table(heads, numbers=frozenset(heads))
    for it in updates:
        # Nobody timed the phases of an imported run, and 0 is how its rows say so.
        timed = it.rollout_s + it.update_s > 0.0
        phases = [f"{spent_s:.2f}" if timed else DASH for spent_s in (it.rollout_s, it.update_s)]
        facts = (count(it.update), count(it.timesteps), *phases, count(it.steps_per_s or None))
        table.add(*facts, *(measure(it.metrics.get(tag)) for tag in SHOWN))
    table.write(sys.stdout)


def check_parquet(path: Path) -> None:
    """Raise `UsageError` where the file cannot be written: without pyarrow, with another ending, without its folder."""
    try:
        import pyarrow.parquet  # noqa: F401 - looked for before any run is asked for
    except ImportError as error:
        raise UsageError(f"--parquet needs pyarrow; {install_words('parquet')}") from error
    if path.suffix != ".parquet":
        raise UsageError(f"--parquet {path}: the file has to end in .parquet")
    if not path.parent.is_dir():
        raise UsageError(f"--parquet {path}: there is no folder {path.parent}")


def write_parquet(path: Path, folders: Sequence[Path]) -> None:
    """Write every update of the runs in `folders`, replacing what was there. Raises `MissionError`, `StorageError`."""
    import io
    import warnings

    import pyarrow as pa
    from pyarrow import parquet

    from mission_tui import read
    from mission_tui.records.atomic import write_atomic

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        runs = []
        for folder in folders:
            try:
                runs.append(read.run(folder))
            except (MissionError, OSError) as error:
                if folder == folders[-1] and not runs:
                    raise
                print_error(f"{folder.name} is left out: {error}")
        found = read.columns(runs)
    for warning in said:
        print_error(str(warning.message))
    written = io.BytesIO()
    parquet.write_table(pa.table(found), written)
    write_atomic(path, written.getvalue())
