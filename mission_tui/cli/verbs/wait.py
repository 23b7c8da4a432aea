"""`mission-tui wait`: block until runs have ended and answer with how; the wait may be broken off, the runs never."""

from __future__ import annotations

import sys

import click

from mission_tui.cli.errors import EX_INTERRUPTED, print_error
from mission_tui.cli.options import all_option, chosen, json_option, runs_argument
from mission_tui.cli.session import Session, pass_session


@click.command("wait")
@runs_argument()
@all_option
@json_option
@pass_session
def wait_command(session: Session, runs: tuple[str, ...], every: bool, as_json: bool) -> int:
    """Wait until runs have ended.

    Exit code 0 when all finished, 1 when one failed, else 75: resumable.
    """
    from mission_tui.cli.follow_runs import exit_code, until_ended
    from mission_tui.cli.tables.documents import run_facts, write_document
    from mission_tui.cli.tables.fleet import fleet_table

    ids = _ids(session, runs, every)
    try:
        views = until_ended(session, ids, lambda _views, _t: None) if ids else ()
    except KeyboardInterrupt:
        print_error(f"no longer waiting; {'the run goes' if len(ids) == 1 else 'the runs go'} on")
        return EX_INTERRUPTED
    if as_json:
        write_document({"runs": [run_facts(view) for view in views]})
    else:
        fleet_table(views).write(sys.stdout)
    return exit_code(views)


def _ids(session: Session, runs: tuple[str, ...], every: bool) -> list[str]:
    """The ids behind the words; with `--all` those of every run that has not ended."""
    from mission_tui.cli.follow_runs import views_of
    from mission_tui.fleet.events.outcome import OVER
    from mission_tui.ipc.requests import GetSnapshot

    chosen(runs, every)
    with session.connect() as connection:
        if every:
            reply = connection.ask(lambda id_: GetSnapshot(id=id_))
            return [view.id for view in reply.snapshot.runs if view.state not in OVER]
        return [view.id for view in views_of(connection, runs)]
