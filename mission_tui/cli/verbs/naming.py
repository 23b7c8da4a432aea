"""What a run is called, and what is said of it: `rename`, `note`, `label`. Its id and its folder stay."""

from __future__ import annotations

import click

from mission_tui.cli.answers import print_accepted
from mission_tui.cli.options import json_option, run_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.errors import UsageError


@click.command("note")
@run_argument()
@click.argument("text", metavar="TEXT...", nargs=-1, required=True)
@json_option
@pass_session
def note_command(session: Session, run: str, text: tuple[str, ...], as_json: bool) -> None:
    """Write a note about a run.

    The newest note is shown with it, all of them in its journal.

    \b
    mission-tui note @last "reward was changed here, see the paper's appendix"
    """
    from mission_tui.ipc.requests import Note

    with session.connect() as connection:
        print_accepted(connection.ask(lambda id_: Note(id=id_, run=run, text=" ".join(text))), as_json)


@click.command("label", context_settings={"ignore_unknown_options": True})
@run_argument()
@click.argument("words", metavar="+LABEL|-LABEL...", nargs=-1, required=True, type=click.UNPROCESSED)
@json_option
@pass_session
def label_command(session: Session, run: str, words: tuple[str, ...], as_json: bool) -> None:
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


@click.command("rename")
@run_argument()
@click.argument("name", metavar="NAME")
@json_option
@pass_session
def rename_command(session: Session, run: str, name: str, as_json: bool) -> None:
    """Call a run NAME from now on; its id and folder stay.

    \b
    mission-tui rename @last baseline
    """
    from mission_tui.ipc.requests import Rename

    with session.connect() as connection:
        print_accepted(connection.ask(lambda id_: Rename(id=id_, run=run, name=name)), as_json)
