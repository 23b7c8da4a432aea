"""`mission-tui note`: write something about a run into its journal."""

from __future__ import annotations

import click

from mission_tui.cli.options import json_option, run_argument
from mission_tui.cli.run_requests import print_accepted
from mission_tui.cli.session import Session, pass_session


@click.command("note")
@run_argument()
@click.argument("text", metavar="TEXT...", nargs=-1, required=True)
@json_option
@pass_session
def command(session: Session, run: str, text: tuple[str, ...], as_json: bool) -> None:
    """Write a note about a run.

    The newest note is shown with it, all of them in its journal.

    \b
    mission-tui note @last "reward was changed here, see the paper's appendix"
    """
    from mission_tui.ipc.requests import Note

    with session.connect() as connection:
        print_accepted(connection.ask(lambda id_: Note(id=id_, run=run, text=" ".join(text))), as_json)
