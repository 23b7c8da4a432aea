"""`mission-tui stop`: end runs gracefully: each saves a checkpoint first."""

from __future__ import annotations

import click

from mission_tui.cli.answers import request_verb
from mission_tui.cli.options import all_option, json_option, runs_argument
from mission_tui.cli.session import Session, pass_session


@click.command("stop")
@runs_argument()
@all_option
@json_option
@pass_session
def command(session: Session, runs: tuple[str, ...], every: bool, as_json: bool) -> None:
    """End runs gracefully, each with a checkpoint."""
    request_verb(session, "stop", runs, every, as_json)
