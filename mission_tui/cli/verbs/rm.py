"""`mission-tui rm`: ended runs go to the trash, come back from it, or are freed at once."""

from __future__ import annotations

import sys

import click

from mission_tui.cli.errors import print_error
from mission_tui.cli.options import json_option, runs_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.tables.removable import removable_facts, removable_table
from mission_tui.cli.terminal_output import confirm, write
from mission_tui.errors import UsageError


@click.command(
    "rm",
    epilog="Examples: mission-tui rm @last; mission-tui rm --undo heavy-3f9a; mission-tui rm --list",
)
@runs_argument()
@click.option("--undo", "undo", is_flag=True, help="Take them back from the trash, where they lie for a day.")
@click.option("--list", "listing", is_flag=True, help="Show what lies in the trash.")
@click.option("--now", "now", is_flag=True, help="Free the bytes for good, also of runs in the trash; asks first.")
@click.option("--yes", is_flag=True, help="With --now: do not ask.")
@json_option
@pass_session
def command(
    session: Session, runs: tuple[str, ...], undo: bool, listing: bool, now: bool, yes: bool, as_json: bool
) -> None:
    """Move ended runs to the trash for a day."""
    if listing:
        if runs or undo or now:
            raise UsageError("--list shows the whole trash and takes nothing else")
        _list(session, as_json)
        return
    if not runs:
        raise UsageError("name at least one run (an id, a unique prefix, a name, or @last)")
    if undo and now:
        raise UsageError("--undo takes runs back and --now frees them for good; give one of them")
    if now and not yes and not _confirmed(len(runs), as_json):
        return
    _remove(session, runs, undo=undo, now=now, as_json=as_json)


def _remove(session: Session, runs: tuple[str, ...], *, undo: bool, now: bool, as_json: bool) -> None:
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.ipc.requests import Remove, Restore

    with session.connect() as connection:
        if undo:
            reply = connection.ask(lambda id_: Restore(id=id_, runs=runs))
        else:
            reply = connection.ask(lambda id_: Remove(id=id_, runs=runs, now=now))
    if as_json:
        write_document({"runs": [{"id": run} for run in reply.runs], "notes": list(reply.notes)})
        return
    for run in reply.runs:
        write(run)
    if not undo and not now:
        print_error(f"in the trash for a day; `mission-tui rm --undo {' '.join(reply.runs)}` takes it back")


def _list(session: Session, as_json: bool) -> None:
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.ipc.requests import GetTrash

    with session.connect() as connection:
        reply = connection.ask(lambda id_: GetTrash(id=id_))
    if as_json:
        write_document({"trash": removable_facts(reply.items), "kept_s": reply.kept_s})
        return
    removable_table(reply.items, reply.kept_s).write(sys.stdout)
    if not reply.items:
        write("the trash is empty")


def _confirmed(number: int, as_json: bool) -> bool:
    if as_json or not sys.stdin.isatty():
        raise UsageError("nothing was removed: --now cannot be undone; add --yes")
    return confirm(f"Free the bytes of {number} run{'s' if number > 1 else ''} for good?")
