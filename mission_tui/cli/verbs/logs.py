"""`mission-tui logs`: what a run's trainer and environments printed, as it stands or as it grows.

The supervisor has already taken out what a terminal would act on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from mission_tui.cli.options import json_option, run_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import write
from mission_tui.errors import UsageError

if TYPE_CHECKING:
    from mission_tui.ipc.replies import LogReply

FOLLOW_S = 0.3


@click.command("logs")
@run_argument()
@click.option("-f", "--follow", is_flag=True, help="Go on as the output grows, until the run has ended.")
@click.option("--grep", "pattern", metavar="RE", help="Only lines in which this regular expression is found.")
@click.option("--attempt", type=click.IntRange(min=1), help="Output of this attempt (default: the newest).")
@json_option
@pass_session
def command(session: Session, run: str, follow: bool, pattern: str | None, attempt: int | None, as_json: bool) -> None:
    """Print the output of a run."""
    from mission_tui.cli.tables.documents import write_document

    wanted = _compiled(pattern)
    for line in _lines(_chunks(session, run, attempt, follow)):
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
        raise UsageError(f"--grep {pattern!r} is no regular expression: {error}") from None


def _chunks(session: Session, run: str, attempt: int | None, follow: bool) -> Iterator[str]:
    """The output from its start to its end; with `follow` until the run has ended and everything was read."""
    from mission_tui.ipc.framing import ConnectionLostError

    offset = 0
    while True:
        try:
            reply, ended = _read(session, run, attempt, offset)
        except ConnectionLostError:
            if follow:
                continue
            raise
        if reply.size < offset:
            # The keeper keeps only the tail of an output that passed its cap: what is there now is new.
            offset = 0
            continue
        yield reply.text
        offset = reply.end
        if reply.end >= reply.size:
            if not follow or ended:
                return
            time.sleep(FOLLOW_S)


def _read(session: Session, run: str, attempt: int | None, offset: int) -> tuple[LogReply, bool]:
    """The output from `offset`, and whether the run had ended before it was read: then no more will come."""
    from mission_tui.cli.follow_runs import view_of
    from mission_tui.fleet.events.outcome import OVER
    from mission_tui.ipc.requests import GetLog

    with session.connect() as connection:
        ended = view_of(connection, run).state in OVER
        return connection.ask(lambda id_: GetLog(id=id_, run=run, offset=offset, attempt=attempt)), ended


def _lines(chunks: Iterator[str]) -> Iterator[str]:
    """Whole lines of a text that arrives in pieces; an unfinished last line comes at the end."""
    rest = ""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split("\n")
        yield from whole
    if rest:
        yield rest
