"""`status` shows the fleet, or some runs of it, once or as it changes; `top` how much of the machine each run uses, as
plain text; `replay` the fleet as it was at a moment, on the screen or as one document.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, get_args

import click

from mission_tui.cli.follow_runs import details_of, show_all_roots, snapshot_of, snapshots, views_of
from mission_tui.cli.options import examples, json_option, runs_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import print_error, write
from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.specs.quantity import BACK_S, parse_moment, parse_span_s

if TYPE_CHECKING:
    from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView

STATUS_REDRAW_S = 1.0
PAGE = 200


@click.command(
    "status",
    epilog=examples(
        "status --watch",
        "status @last --provenance",
    ),
)
@runs_argument()
@click.option("--provenance", is_flag=True, help="From which code, packages and machine the runs were launched.")
@click.option("--all-roots", is_flag=True, help="All your runs roots that have a supervisor, with their runs.")
@click.option("--watch", is_flag=True, help="Go on until Ctrl-C; with --json one object a line.")
@click.option("--limit", type=click.IntRange(1, 1000), metavar="N", help="At most N runs, older ones too.")
@click.option("--offset", type=click.IntRange(0), metavar="N", help="Skip the first N runs.")
@click.option(
    "--state", "states", multiple=True, metavar="STATE", help="Only runs in this state, or with this outcome."
)
@json_option
@pass_session
def status_command(
    session: Session,
    runs: tuple[str, ...],
    provenance: bool,
    all_roots: bool,
    watch: bool,
    limit: int | None,
    offset: int | None,
    states: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the machine and the runs."""
    if limit is not None or offset is not None or states:
        if all_roots or runs or provenance or watch:
            raise UsageError(
                "--limit, --offset and --state page through all runs, once: give them alone, or with --json"
            )
        _show_page(session, offset or 0, PAGE if limit is None else limit, _known_states(states), as_json)
        return
    if all_roots:
        if runs or provenance or watch:
            raise UsageError("--all-roots shows every run of every live runs root once: give it alone, or with --json")

        show_all_roots(as_json)
        return
    if provenance:
        if not runs or watch:
            raise UsageError("--provenance is about runs, once: name at least one, without --watch")
        _show_provenance(session, runs, as_json)
        return

    with session.connect() as connection:
        snapshot = snapshot_of(connection)
    _show(session, snapshot, runs, as_json)
    busy = [f"{other.root}{other.remark}" for other in snapshot.elsewhere if other.live != 0]
    if busy and not as_json:
        print_error(f"also live: {', '.join(busy)}: `mission-tui status --all-roots` shows them too")
    if not as_json and sys.stderr.isatty():
        _say_elsewhere(session)
    if watch:
        _follow(session, runs, as_json)


def _known_states(states: tuple[str, ...]) -> tuple[str, ...]:

    from mission_tui.fleet.events.outcome import RunState
    from mission_tui.fleet.views.snapshot import ENDS

    known = (*get_args(RunState), *ENDS)
    for word in states:
        if word not in known:
            raise UsageError(f"--state '{word}' is none{nearest(word, known)}; there are {', '.join(known)}")
    return states


def _show_page(session: Session, offset: int, limit: int, states: tuple[str, ...], as_json: bool) -> None:
    """Print a page of all runs, and which of how many they are."""
    from mission_tui.cli.tables.documents import status_facts, write_document
    from mission_tui.ipc.requests import GetPage

    with session.connect() as connection:
        page = connection.ask(lambda id_: GetPage(id=id_, offset=offset, limit=limit, states=states))
    if as_json:
        facts = status_facts(page.snapshot, page.snapshot.runs)
        write_document({**facts, "offset": offset, "total": page.total})
        return
    from mission_tui.cli.tables.runs import fleet_table, machine_line

    write(machine_line(page.snapshot))
    fleet_table(page.snapshot.runs).write(sys.stdout)
    shown = len(page.snapshot.runs)
    print_error(f"runs {offset + 1} to {offset + shown} of {page.total}" if shown else f"no more of {page.total} runs")


def _say_elsewhere(session: Session) -> None:
    """For a person: what ended at other runs roots since they looked there; this one they have looked at now."""
    from mission_tui.records.runs_roots import ended_elsewhere, note_look

    for ended in ended_elsewhere(session.root, session.environ):
        print_error(ended.sentence)
    note_look(session.root, session.environ)


def _show_provenance(session: Session, runs: tuple[str, ...], as_json: bool) -> None:
    from mission_tui.cli.tables.documents import provenance_facts, write_document
    from mission_tui.cli.tables.runs import provenance_lines

    with session.connect() as connection:
        known = [details_of(connection, run) for run in runs]
    if as_json:
        write_document({"runs": [provenance_facts(details) for details in known]})
        return
    for details in known:
        for line in provenance_lines(details):
            write(line)


def _follow(session: Session, runs: tuple[str, ...], as_json: bool) -> None:
    """Show each newer snapshot, at most one a second, across restarts of the supervisor."""

    shown = time.monotonic()
    for snapshot in snapshots(session):
        if time.monotonic() - shown >= STATUS_REDRAW_S:
            _show(session, snapshot, runs, as_json)
            shown = time.monotonic()


def _show(session: Session, snapshot: FleetSnapshot, runs: tuple[str, ...], as_json: bool) -> None:
    from mission_tui.cli.tables.documents import status_facts, write_document

    views = _views(session, snapshot, runs)
    if as_json:
        write_document(status_facts(snapshot, views))
        return
    from mission_tui.cli.tables.runs import crowded, fleet_table, machine_line
    from mission_tui.fleet.events.outcome import OVER
    from mission_tui.fleet.views.snapshot import recent_gains

    write(machine_line(snapshot))
    fleet_table(views).write(sys.stdout)
    older = 0 if runs else snapshot.ended_total - sum(view.state in OVER for view in views)
    if older > 0:
        print_error(f"{older:,} older runs: `mission-tui status --offset {len(views)}` shows the next of them")
    for paid in recent_gains(snapshot)[:1]:
        write(paid.sentence)
    if snapshot.unread:
        print_error(f"{snapshot.unread} run director{'y is' if snapshot.unread == 1 else 'ies are'} still being read")
    for sentence in crowded(snapshot):
        print_error(sentence)
    _name_leftovers(snapshot)


def _name_leftovers(snapshot: FleetSnapshot) -> None:
    from mission_tui.fleet.views.snapshot import stale_sentence

    if snapshot.stale:
        print_error(f"{stale_sentence(snapshot.stale)}: `mission-tui clean` shows and removes them")


def _views(session: Session, snapshot: FleetSnapshot, runs: tuple[str, ...]) -> tuple[RunView, ...]:
    """The snapshot's runs, or those named, a group's name standing for its runs; the supervisor resolves names, and
    knows runs older than the snapshot's.
    """
    if not runs:
        return snapshot.runs

    with session.connect() as connection:
        return views_of(connection, runs)


TOP_REDRAW_S = 2.0
WIDE = 140
"""Columns that a terminal must have for the table of runs with everything in it."""
PAID_LINES = 4


@click.command(
    "top",
    epilog=examples(
        "top --watch",
        "top --csv --last 10m --every 5s",
    ),
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
    shown = -TOP_REDRAW_S
    for snapshot in snapshots(session):
        if time.monotonic() - shown >= TOP_REDRAW_S:
            _show_shares(session, snapshot, as_json)
            shown = time.monotonic()


def _show_shares(session: Session, snapshot: FleetSnapshot, as_json: bool) -> None:
    from mission_tui.cli.tables import top as top_tables

    shown = top_tables.last_minute(session)
    if as_json:
        from mission_tui.cli.tables.documents import top_facts, write_document

        write_document(top_facts(snapshot) | top_tables.attribution_facts(shown))
        return
    from mission_tui.fleet.views.snapshot import recent_gains
    from mission_tui.gpu_driver import find_mps
    from mission_tui.present.machines import sharing_sentence

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
    _name_leftovers(snapshot)
    for line in top_tables.worker_lines(snapshot.runs):
        write(line)
    write(top_tables.others_line(snapshot))
    top_tables.others_table(snapshot.host).write(sys.stdout)
    if snapshot.gpus and (sentence := sharing_sentence(snapshot, find_mps(os.environ))) is not None:
        write(sentence)
    for paid in recent_gains(snapshot)[:PAID_LINES]:
        write(paid.sentence)


@click.command(
    "replay",
    epilog=examples(
        "replay --at 03:12",
        "replay --back 2h --json",
    ),
)
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
