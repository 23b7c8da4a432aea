"""`mission-tui replay`: the fleet as it was at a moment, on the screen to be moved through, or as one document."""

from __future__ import annotations

import time

import click

from mission_tui.cli.errors import print_error
from mission_tui.cli.options import json_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.errors import UsageError


@click.command("replay", epilog="Examples: mission-tui replay --at 03:12; mission-tui replay --back 2h --json")
@click.option("--at", metavar="TIME", help="A time of day, the last one before now, or 2026-11-21T03:12; local time.")
@click.option(
    "--back", metavar="SPAN", help="How long before now: 30s, 10m, 2h, 3d; ten minutes where neither is given."
)
@json_option
@pass_session
def command(session: Session, at: str | None, back: str | None, as_json: bool) -> int | None:
    """Show the fleet as it was, from the files alone; nothing can be changed there."""
    from mission_tui.fleet.time_words import BACK_S, parse_moment, parse_span_s

    if at is not None and back is not None:
        raise UsageError("give --at or --back, not both")
    now = time.time()
    moment = now - (BACK_S if back is None else parse_span_s(back, "--back")) if at is None else parse_moment(at, now)
    if as_json:
        _print(session, moment)
        return None
    from mission_tui.cli.screen import open_screen

    return open_screen(session, moment)


def _print(session: Session, moment: float) -> None:
    from mission_tui.cli.tables.documents import status_facts, write_document
    from mission_tui.ipc.client import Connection
    from mission_tui.ipc.requests import GetSnapshot

    with Connection.connect_readonly(session.root, at=moment) as connection:
        snapshot = connection.ask(lambda id_: GetSnapshot(id=id_)).snapshot
    assert snapshot.replay is not None
    if moment < snapshot.replay.since:
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(snapshot.replay.since))
        print_error(f"no run was there before {since}: this is that moment")
    when = {"t": snapshot.t, "since": snapshot.replay.since, "until": snapshot.replay.until}
    write_document(when | status_facts(snapshot, snapshot.runs))
