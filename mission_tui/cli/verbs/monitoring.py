"""`top` prints how much of the machine each run uses, as plain text; `replay` shows the fleet as it was at a moment, on
the screen or as one document.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

import click

from mission_tui.cli.follow_runs import snapshot_of, snapshots
from mission_tui.cli.options import json_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import print_error, write
from mission_tui.errors import UsageError
from mission_tui.fleet.time_words import BACK_S, parse_moment, parse_span_s

if TYPE_CHECKING:
    from mission_tui.fleet.views.snapshot import FleetSnapshot

REDRAW_S = 2.0
WIDE = 140
"""Columns that a terminal must have for the table of runs with everything in it."""
PAID_LINES = 4


@click.command(
    "top", epilog="Examples: mission-tui top; mission-tui top --watch; mission-tui top --csv --last 10m --every 5s"
)
@click.option("--watch", is_flag=True, help="Go on until Ctrl-C; with --json one object a line.")
@click.option("--csv", "as_csv", is_flag=True, help="A time series: a line per GPU, host and run for each interval.")
@click.option("--last", default="60s", show_default=True, metavar="TIME", help="With --csv: how far back, up to 24h.")
@click.option("--every", default="1s", show_default=True, metavar="TIME", help="With --csv: length of the interval.")
@json_option
@pass_session
def top_command(session: Session, watch: bool, as_csv: bool, last: str, every: str, as_json: bool) -> None:
    """Show how much CPU, memory and GPU each run and other programs use."""
    if as_csv:
        from mission_tui.cli.tables.top import write_series

        if as_json:
            raise UsageError("give --json or --csv, not both")
        write_series(session, parse_span_s(last, "--last", 0.01), parse_span_s(every, "--every", 0.01), watch=watch)
        return

    if not watch:
        with session.connect() as connection:
            snapshot = snapshot_of(connection)
        _show_shares(session, snapshot, as_json)
        return
    shown = -REDRAW_S
    for snapshot in snapshots(session):
        if time.monotonic() - shown >= REDRAW_S:
            _show_shares(session, snapshot, as_json)
            shown = time.monotonic()


def _show_shares(session: Session, snapshot: FleetSnapshot, as_json: bool) -> None:
    from mission_tui.cli.tables import top as top_tables

    shown = top_tables.last_minute(session)
    if as_json:
        from mission_tui.cli.tables.documents import top_facts, write_document

        write_document(top_facts(snapshot) | top_tables.attribution_facts(shown))
        return
    from mission_tui.cli.doctor_checks.machine import find_mps
    from mission_tui.fleet.views.machine_sharing import sharing_sentence
    from mission_tui.fleet.views.snapshot import recent_gains

    write(top_tables.host_line(snapshot.host))
    for failed in snapshot.failed_duties:
        write(failed.sentence)
    if cores := top_tables.cores_line(snapshot.host):
        write(cores)
    top_tables.gpu_table(snapshot).write(sys.stdout)
    for line in top_tables.duty_lines(shown):
        write(line)
    brief = sys.stdout.isatty() and shutil.get_terminal_size().columns < WIDE
    top_tables.usage_table(snapshot.runs, brief=brief).write(sys.stdout)
    if shown.runs:
        top_tables.share_table(shown).write(sys.stdout)
    for line in top_tables.worker_lines(snapshot.runs):
        write(line)
    write(top_tables.others_line(snapshot))
    top_tables.others_table(snapshot.host).write(sys.stdout)
    if snapshot.gpus and (sentence := sharing_sentence(snapshot, find_mps(os.environ))) is not None:
        write(sentence)
    for paid in recent_gains(snapshot)[:PAID_LINES]:
        write(paid.sentence)


@click.command("replay", epilog="Examples: mission-tui replay --at 03:12; mission-tui replay --back 2h --json")
@click.option("--at", metavar="TIME", help="A time of day, the last one before now, or 2026-11-21T03:12; local time.")
@click.option(
    "--back", metavar="SPAN", help="How long before now: 30s, 10m, 2h, 3d; ten minutes where neither is given."
)
@json_option
@pass_session
def replay_command(session: Session, at: str | None, back: str | None, as_json: bool) -> int | None:
    """Show the fleet as it was, from the files alone; nothing can be changed there."""

    if at is not None and back is not None:
        raise UsageError("give --at or --back, not both")
    now = time.time()
    moment = now - (BACK_S if back is None else parse_span_s(back, "--back")) if at is None else parse_moment(at, now)
    if as_json:
        _print_moment(session, moment)
        return None
    from mission_tui.cli.screen import open_screen

    return open_screen(session, moment)


def _print_moment(session: Session, moment: float) -> None:
    from mission_tui.cli.tables.documents import status_facts, write_document
    from mission_tui.ipc.client import Connection

    with Connection.connect_readonly(session.root, at=moment) as connection:
        snapshot = snapshot_of(connection)
    assert snapshot.replay is not None
    if moment < snapshot.replay.since:
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(snapshot.replay.since))
        print_error(f"no run existed before {since}: this shows that moment")
    when = {"t": snapshot.t, "since": snapshot.replay.since, "until": snapshot.replay.until}
    write_document(when | status_facts(snapshot, snapshot.runs))
