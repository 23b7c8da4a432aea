"""`mission-tui freeze`: stop every process of runs where it stands; memory stays held, and `resume` lets them go on."""

from __future__ import annotations

import click

from mission_tui.cli.answers import request_verb
from mission_tui.cli.options import all_option, json_option, runs_argument
from mission_tui.cli.session import Session, pass_session


@click.command("freeze")
@runs_argument()
@all_option
@json_option
@pass_session
def command(session: Session, runs: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Stop runs where they stand; memory stays held."""
    request_verb(session, "freeze", runs, every, as_json)
