"""`mission-tui findings`: what the health rules say about one run, or about every run of the fleet."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mission_tui.cli.options import json_option, run_argument
from mission_tui.cli.session import Session, pass_session

if TYPE_CHECKING:
    from mission_tui.fleet.snapshot import RunView


@click.command("findings")
@run_argument(required=False)
@json_option
@pass_session
def command(session: Session, run: str | None, as_json: bool) -> None:
    """Show findings with cause and advice."""
    from mission_tui.cli.documents import finding_facts, write_document
    from mission_tui.cli.table import Table

    views = _views(session, run)
    if as_json:
        judged = [
            {"run": view.id, "updates": view.update or 0, "findings": [finding_facts(it) for it in view.findings]}
            for view in views
        ]
        write_document(judged[0] if run is not None else {"runs": judged})
        return
    table = Table(("run", "severity", "state", "updates", "finding", "cause", "advice"))
    for view in views:
        for it in view.findings:
            span = f"{it.first_update}-{it.last_update}"
            table.add(view.id, it.severity, it.state, span, it.sentence, it.cause, it.proposal)
    table.write(sys.stdout)
    if not table.rows:
        click.echo("no findings")


def _views(session: Session, run: str | None) -> tuple[RunView, ...]:
    from mission_tui.cli.watching import view_of
    from mission_tui.ipc.messages import GetSnapshot

    with session.connect() as connection:
        if run is not None:
            return (view_of(connection, run),)
        return connection.ask(lambda id_: GetSnapshot(id=id_)).snapshot.runs
