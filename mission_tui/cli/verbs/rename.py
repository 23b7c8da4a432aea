"""`mission-tui rename`: call a run something else; its id and its folder stay."""

from __future__ import annotations

import click

from mission_tui.cli.options import json_option, run_argument
from mission_tui.cli.run_requests import print_accepted
from mission_tui.cli.session import Session, pass_session


@click.command("rename")
@run_argument()
@click.argument("name", metavar="NAME")
@json_option
@pass_session
def command(session: Session, run: str, name: str, as_json: bool) -> None:
    """Call a run NAME from now on; its id and folder stay.

    \b
    mission-tui rename @last baseline
    """
    from mission_tui.ipc.requests import Rename

    with session.connect() as connection:
        print_accepted(connection.ask(lambda id_: Rename(id=id_, run=run, name=name)), as_json)
