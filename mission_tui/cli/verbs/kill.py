"""`mission-tui kill`: end runs at once, unsaved; their last checkpoint stays."""

from __future__ import annotations

import click

from mission_tui.cli.answers import request_verb
from mission_tui.cli.options import all_option, json_option, runs_argument
from mission_tui.cli.session import Session, pass_session


@click.command("kill")
@runs_argument()
@all_option
@json_option
@pass_session
def command(session: Session, runs: tuple[str, ...], every: bool, as_json: bool) -> None:
    """End runs at once, without saving."""
    request_verb(session, "kill", runs, every, as_json)
