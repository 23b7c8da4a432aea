"""`mission-tui label`: put short words on a run, or take them off."""

from __future__ import annotations

import click

from mission_tui.cli.options import json_option, run_argument
from mission_tui.cli.run_requests import print_accepted
from mission_tui.cli.session import Session, pass_session
from mission_tui.errors import UsageError


@click.command("label", context_settings={"ignore_unknown_options": True})
@run_argument()
@click.argument("words", metavar="+LABEL|-LABEL...", nargs=-1, required=True, type=click.UNPROCESSED)
@json_option
@pass_session
def command(session: Session, run: str, words: tuple[str, ...], as_json: bool) -> None:
    """Label a run (+LABEL), or take labels off (-LABEL).

    \b
    mission-tui label @last +paper -draft
    """
    from mission_tui.ipc.requests import Label

    for word in words:
        if word[:1] not in ("+", "-"):
            raise UsageError(f"label '{word[:40]}': say +{word[:40]} to put it on or -{word[:40]} to take it off")
    add = tuple(word[1:] for word in words if word[0] == "+")
    remove = tuple(word[1:] for word in words if word[0] == "-")
    with session.connect() as connection:
        print_accepted(connection.ask(lambda id_: Label(id=id_, run=run, add=add, remove=remove)), as_json)
