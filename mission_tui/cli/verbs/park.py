"""`mission-tui park`: save runs and end their processes, so that memory and GPU are free until they are resumed."""

from __future__ import annotations

import click

from mission_tui.cli.answers import request_verb
from mission_tui.cli.options import all_option, json_option, runs_argument
from mission_tui.cli.session import Session, pass_session


@click.command("park")
@runs_argument()
@all_option
@json_option
@pass_session
def command(session: Session, runs: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Save runs and end their processes, to be resumed later."""
    request_verb(session, "park", runs, every, as_json)
