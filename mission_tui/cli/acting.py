"""What `stop`, `kill`, `pause` and `checkpoint` have in common: one request about some runs, and what was accepted."""

from __future__ import annotations

from typing import Literal

import click

from mission_tui.cli.errors import say
from mission_tui.cli.options import chosen
from mission_tui.cli.session import Session

__all__ = ["act"]

ActVerb = Literal["stop", "kill", "pause", "checkpoint"]


def act(session: Session, verb: ActVerb, runs: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Ask for `verb` and print the runs it was accepted for, one id a line; what comes of it shows in `status`."""
    from mission_tui.cli.documents import write_document
    from mission_tui.ipc.messages import Act

    wanted = chosen(runs, every)
    with session.connect() as connection:
        reply = connection.ask(lambda id_: Act(id=id_, verb=verb, runs=wanted))
    if as_json:
        write_document({"runs": [{"id": run} for run in reply.runs], "notes": list(reply.notes)})
        return
    for run in reply.runs:
        click.echo(run)
    for note in reply.notes:
        say(note)
