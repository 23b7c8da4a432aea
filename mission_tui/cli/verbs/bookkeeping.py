"""A run's name, notes, labels and owner: `rename`, `note`, `label`; `adopt` shows what a foreign run would run, and
takes it over once a person agrees. Id and folder stay.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mission_tui.cli.answers import merged, print_accepted
from mission_tui.cli.follow_runs import views_of
from mission_tui.cli.options import complete_runs, json_option, run_argument, runs_argument, text_of
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import confirm, print_error, write
from mission_tui.errors import UsageError
from mission_tui.fleet.text import clean

if TYPE_CHECKING:
    from mission_tui.ipc.replies import Adoptable


@click.command("note")
@run_argument()
@click.argument("text", metavar="TEXT...", nargs=-1, required=True)
@json_option
@pass_session
def note_command(session: Session, run: str, text: tuple[str, ...], as_json: bool) -> None:
    """Write a note about a run, or about each of a group.

    The newest note is shown with it, all of them in its journal.

    \b
    mission-tui note @last "reward was changed here, see the paper's appendix"
    """
    from mission_tui.ipc.requests import Note

    said = text_of(" ".join(text))
    with session.connect() as connection:
        replies = [
            connection.ask(lambda id_, one=view.id: Note(id=id_, run=one, text=said))  # type: ignore[misc]
            for view in views_of(connection, (run,))
        ]
    print_accepted(merged(replies), as_json)


@click.command("label", context_settings={"ignore_unknown_options": True})
@click.argument(
    "words",
    metavar="RUN... +LABEL|-LABEL...",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    shell_complete=complete_runs,
)
@json_option
@pass_session
def label_command(session: Session, words: tuple[str, ...], as_json: bool) -> None:
    """Label runs (+LABEL), or take labels off (-LABEL); the name of a group stands for all of its runs.

    \b
    mission-tui label @last +paper -draft
    mission-tui label sweep-3f9a baseline +paper
    """
    from mission_tui.ipc.requests import Label

    signed = next((at for at, word in enumerate(words) if word[:1] in ("+", "-")), len(words))
    runs, words = words[:signed], words[signed:]
    if not runs:
        raise UsageError("name the runs first, then what to put on or take off: label RUN +LABEL")
    if not words:
        raise UsageError(f"no label is given: {_signs(runs[-1])}")
    for word in words:
        if word[:1] not in ("+", "-"):
            raise UsageError(f"'{clean(word, 40)}' has no sign: {_signs(word)}")
    add = tuple(word[1:] for word in words if word[0] == "+")
    remove = tuple(word[1:] for word in words if word[0] == "-")
    with session.connect() as connection:
        replies = [
            connection.ask(lambda id_, one=view.id: Label(id=id_, run=one, add=add, remove=remove))  # type: ignore[misc]
            for view in views_of(connection, runs)
        ]
    print_accepted(merged(replies), as_json)


def _signs(word: str) -> str:
    """How a label is put on and taken off: `word`, where it can be one."""
    from mission_tui.fleet.launch_plan import LABEL

    it = word if LABEL.fullmatch(word) else "LABEL"
    return f"say +{it} to put {'one' if it != word else repr(word)} on, or -{it} to take it off"


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


@click.command(
    "adopt",
    epilog="Examples: mission-tui adopt heavy-3f9a; mission-tui --runs-dir copy adopt --all --trust",
)
@runs_argument()
@click.option("--all", "every", is_flag=True, help="Every foreign run of this runs root.")
@click.option("--trust", is_flag=True, help="Adopt them without asking; otherwise you are shown them and asked.")
@json_option
@pass_session
def adopt_command(session: Session, runs: tuple[str, ...], every: bool, trust: bool, as_json: bool) -> int:
    """Show what foreign runs would execute, and adopt them.

    A run is foreign when it carries no seal of this user on this machine: it was copied, received, restored, or made by
    an earlier version. It is shown and judged, and never started, signalled or evaluated until it is adopted.
    """
    if every == bool(runs):
        raise UsageError("name at least one run, or give --all for every foreign one")
    items = _shown(session, runs, every)
    if not as_json:
        _print(items)
    fit = [item for item in items if item.digest]
    if not items:
        if not as_json:
            print_error("no run here is foreign")
    elif not fit:
        print_error("nothing was adopted: none of them can be")
    elif trust or _asked(fit, as_json):
        _adopt(session, fit)
        trust = True
    else:
        print_error("nothing was adopted; add --trust to adopt what is shown")
    if as_json:
        _write(items, adopted=trust and bool(fit))
    return 0 if len(fit) == len(items) or not trust else 1


def _shown(session: Session, runs: tuple[str, ...], every: bool) -> tuple[Adoptable, ...]:
    """What is foreign, read without changing anything: no supervisor is started for that."""
    from mission_tui.ipc.requests import GetAdoptable

    looking = session._replace(readonly=not session.is_supervised)
    with looking.connect() as connection:
        reply = connection.ask(lambda id_: GetAdoptable(id=id_, runs=runs, every=every))
        items = list(reply.items)
        while more := reply.more:
            reply = connection.ask(lambda id_, more=more: GetAdoptable(id=id_, runs=more, every=True))  # type: ignore[misc]
            items += reply.items
    return tuple(items)


def _adopt(session: Session, items: Sequence[Adoptable]) -> None:
    from mission_tui.ipc.requests import Adopt

    with session._replace(received=False).connect() as connection:
        wanted, digests = tuple(item.run for item in items), tuple(item.digest for item in items)
        connection.ask(lambda id_: Adopt(id=id_, runs=wanted, digests=digests))
    print_error(f"{len(items)} run{'s are' if len(items) > 1 else ' is'} yours now, as if launched here")


def _print(items: Sequence[Adoptable]) -> None:
    for item in items:
        write(f"{item.name} ({item.run}) is {'foreign:' if item.foreign else 'yours, but'} {item.why}")
        for row in item.rows:
            write(f"  {row.kind:14} {row.value}")


def _asked(items: Sequence[Adoptable], as_json: bool) -> bool:
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    number = "this run" if len(items) == 1 else f"these {len(items)} runs"
    return confirm(f"Adopt {number}, with everything above?")


def _write(items: Sequence[Adoptable], *, adopted: bool) -> None:
    from mission_tui.cli.tables.documents import write_document

    write_document(
        {
            "adopted": adopted,
            "runs": [
                {
                    "id": item.run,
                    "name": item.name,
                    "why": item.why,
                    "would_run": [{"kind": row.kind, "value": row.value} for row in item.rows],
                }
                for item in items
            ],
        }
    )
