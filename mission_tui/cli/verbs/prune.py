"""`mission-tui prune`: what ended long ago goes to the trash, shown first with its bytes; only what was shown goes."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, cast

import click

from mission_tui.cli.errors import print_error
from mission_tui.cli.options import json_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.tables.removable import removable_facts, removable_table, total_bytes
from mission_tui.cli.terminal_output import confirm, write
from mission_tui.errors import UsageError, nearest

if TYPE_CHECKING:
    from mission_tui.ipc.replies import RemovableReply
    from mission_tui.ipc.requests import Keep

_KEEP = ("best", "last")


@click.command(
    "prune",
    epilog="Examples: mission-tui prune --older 14d --dry-run; mission-tui prune --older 2d --keep best,last --yes",
)
@click.option("--older", required=True, metavar="AGE", help="What ended longer ago than this: 90m, 36h, 14d, 2w.")
@click.option("--keep", metavar="best,last", help="Runs stay, and of their checkpoints these; the others go.")
@click.option("--dry-run", "dry", is_flag=True, help="Only say what would go, and how many bytes.")
@click.option("--now", "now", is_flag=True, help="Free the bytes for good instead of keeping them for a day.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@pass_session
def command(session: Session, older: str, keep: str | None, dry: bool, now: bool, yes: bool, as_json: bool) -> None:
    """Move old runs or checkpoints to the trash."""
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.cli.tables.numbers import size
    from mission_tui.fleet.time_words import parse_span_s

    before_t, kept = time.time() - parse_span_s(older, "--older"), _kept(keep)
    reply = _prune(session, before_t, kept, remove=False)
    amount = f"{len(reply.items)} ({size(total_bytes(reply.items))})"
    if not as_json:
        removable_table(reply.items, reply.kept_s).write(sys.stdout)
        write(f"{'would go' if dry else 'to go'}: {amount}" if reply.items else "nothing is that old")
    removes = bool(reply.items) and not dry and (yes or (not as_json and _confirmed(amount, now=now)))
    if removes:
        reply = _prune(session, before_t, kept, remove=True, now=now)
    if as_json:
        facts = {"removed": removes, "bytes": total_bytes(reply.items), "items": removable_facts(reply.items)}
        write_document(facts | {"kept_s": reply.kept_s})
    elif removes:
        gone = f"{len(reply.items)} ({size(total_bytes(reply.items))})"
        hint = "" if now else "; in the trash for a day, `mission-tui rm --undo RUN` takes them back"
        write(f"removed {gone}{hint}")


def _prune(
    session: Session, before_t: float, keep: tuple[Keep, ...], *, remove: bool, now: bool = False
) -> RemovableReply:
    from mission_tui.ipc.requests import Prune

    with session.connect() as connection:
        return connection.ask(lambda id_: Prune(id=id_, before_t=before_t, keep=keep, remove=remove, now=now))


def _kept(words: str | None) -> tuple[Keep, ...]:
    """The checkpoints to keep. Raises `UsageError`."""
    if words is None:
        return ()
    kept = tuple(dict.fromkeys(word.strip() for word in words.split(",") if word.strip()))
    for word in kept:
        if word not in _KEEP:
            raise UsageError(f"--keep {word!r} is no checkpoint: give best, last or both{nearest(word, _KEEP)}")
    if not kept:
        raise UsageError("--keep needs best, last or both")
    return cast("tuple[Keep, ...]", kept)


def _confirmed(amount: str, *, now: bool) -> bool:
    if not sys.stdin.isatty():
        print_error("nothing was removed: add --yes to remove what was shown")
        return False
    how = "Free for good" if now else "Move to the trash"
    return confirm(f"{how}: {amount}?")
