"""What the verbs about some runs have in common: one request, and how it is said what was accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mission_tui.cli.errors import print_error
from mission_tui.cli.options import chosen
from mission_tui.cli.session import Session
from mission_tui.cli.terminal_output import write

if TYPE_CHECKING:
    from mission_tui.fleet.events.journal import ActVerb
    from mission_tui.ipc.replies import Accepted

__all__ = ["print_accepted", "request_verb"]


def request_verb(session: Session, verb: ActVerb, runs: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Ask for `verb` and print the runs it was accepted for, one id a line; what comes of it shows in `status`."""
    from mission_tui.ipc.requests import Act

    wanted = chosen(runs, every)
    with session.connect() as connection:
        reply = connection.ask(lambda id_: Act(id=id_, verb=verb, runs=wanted))
    print_accepted(reply, as_json)


def print_accepted(reply: Accepted, as_json: bool) -> None:
    """One document, or the runs on stdout, one id a line, and the notes on stderr."""
    from mission_tui.cli.tables.documents import write_document

    if as_json:
        write_document({"runs": [{"id": run} for run in reply.runs], "notes": list(reply.notes)})
        return
    for run in reply.runs:
        write(run)
    for note in reply.notes:
        print_error(note)
