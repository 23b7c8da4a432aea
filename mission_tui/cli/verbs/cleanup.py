"""Frees space: `clean` removes what dead runs left behind, `rm` and `prune` move ended runs to the trash.

Only what was shown is removed; leftovers only while the supervisor still finds them to be ours.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from mission_tui.cli.options import json_option, runs_argument
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import Table, confirm, print_error, shown_meanwhile, write
from mission_tui.errors import UsageError, nearest
from mission_tui.present.numbers import duration, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mission_tui.ipc.replies import LeftoverRow, Removable, RemovableReply
    from mission_tui.ipc.requests import Keep

_KEEP = ("best", "last")
_AT_A_TIME = 50


@click.command("clean")
@click.option("--yes", is_flag=True, help="Remove what is found without asking.")
@json_option
@pass_session
def clean_command(session: Session, yes: bool, as_json: bool) -> None:
    """Find leftovers of dead runs and remove them."""
    from mission_tui.cli.tables.documents import write_document

    found = _clean(session, ())
    removable = tuple(it.key for it in found if it.verdict == "ours")
    if not as_json:
        _show_leftovers(found)
    if removable and (yes or (not as_json and _confirmed(f"Remove {len(removable)}?", "what is ours"))):
        found = _clean(session, removable)
        if not as_json:
            write(f"removed {sum(it.removed for it in found)} of {len(removable)}")
    if as_json:
        write_document({"stale": [_leftover_facts(it) for it in found]})


def _clean(session: Session, remove: tuple[str, ...]) -> tuple[LeftoverRow, ...]:
    from mission_tui.ipc.requests import Clean

    with session.connect() as connection:
        return connection.ask(lambda id_: Clean(id=id_, remove=remove)).stale


def _confirmed(question: str, otherwise: str) -> bool:
    """Whether the person agrees; without a terminal there is nobody to ask, and `otherwise` is said."""
    if not sys.stdin.isatty():
        print_error(f"nothing was removed: add --yes to remove {otherwise}")
        return False
    return confirm(question)


def _leftover_facts(it: LeftoverRow) -> dict[str, Any]:
    what = {"pid": it.pid} if it.kind == "process" else {"name": it.name}
    size = {"age_s": it.age_s, "memory_bytes": it.memory_bytes, "vram_bytes": it.vram_bytes}
    return {"kind": it.kind, **what, "run": it.run, "verdict": it.verdict, **size, "removed": it.removed}


def _show_leftovers(found: tuple[LeftoverRow, ...]) -> None:
    from mission_tui.fleet.text import clean

    table = Table(
        ("kind", "pid or name", "run", "verdict", "age", "memory", "vram", "command"),
        numbers=frozenset({"age", "memory", "vram"}),
    )
    for it in found:
        table.add(
            it.kind,
            clean(str(it.pid or it.name or "")),
            it.run or "",
            it.verdict,
            duration(it.age_s),
            size(it.memory_bytes),
            size(it.vram_bytes),
            it.command,
        )
    table.write(sys.stdout)
    if not found:
        write("nothing was left behind")


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
def rm_command(
    session: Session, runs: tuple[str, ...], undo: bool, listing: bool, now: bool, yes: bool, as_json: bool
) -> None:
    """Move ended runs to the trash for a day."""
    if listing:
        if runs or undo or now:
            raise UsageError("--list shows the whole trash and takes nothing else")
        _list_trash(session, as_json)
        return
    if not runs:
        raise UsageError("name at least one run (an id, a unique prefix, a name, or @last)")
    if undo and now:
        raise UsageError("--undo takes runs back and --now frees them for good; give one of them")
    if now and not yes and not _confirmed_freeing(len(runs), as_json):
        return
    _remove(session, runs, undo=undo, now=now, as_json=as_json)


def _remove(session: Session, runs: tuple[str, ...], *, undo: bool, now: bool, as_json: bool) -> None:
    from mission_tui.cli.answers import print_accepted
    from mission_tui.ipc.requests import Remove, Restore

    with session.connect() as connection:
        if undo:
            reply = connection.ask(lambda id_: Restore(id=id_, runs=runs))
        else:
            reply = connection.ask(lambda id_: Remove(id=id_, runs=runs, now=now))
    print_accepted(reply, as_json)
    if not as_json and not undo and not now:
        words = runs if len(reply.runs) > len(runs) else reply.runs
        print_error(f"in the trash for a day; `mission-tui rm --undo {' '.join(words)}` takes it back")


def _list_trash(session: Session, as_json: bool) -> None:
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


def _confirmed_freeing(number: int, as_json: bool) -> bool:
    if as_json or not sys.stdin.isatty():
        raise UsageError("nothing was removed: --now cannot be undone; add --yes")
    return confirm(f"Free the bytes of {number} run{'s' if number > 1 else ''} for good?")


@click.command(
    "prune",
    epilog="Examples: mission-tui prune --older 14d --dry-run; mission-tui prune --older 2d --keep best,last --yes",
)
@runs_argument()
@click.option(
    "--older", metavar="AGE", help="Runs that ended longer ago: 90m, 36h, 14d, 2w. Needed where no RUN is named."
)
@click.option("--keep", metavar="best,last", help="Keep the runs and these checkpoints; the other checkpoints go.")
@click.option("--dry-run", "dry", is_flag=True, help="Only show what would go, and how many bytes.")
@click.option("--now", "now", is_flag=True, help="Free the bytes for good instead of keeping them for a day.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@pass_session
def prune_command(
    session: Session,
    runs: tuple[str, ...],
    older: str | None,
    keep: str | None,
    dry: bool,
    now: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Move old runs or checkpoints to the trash: of all, or of the runs and groups that are named."""
    from mission_tui.cli.tables.documents import write_document
    from mission_tui.fleet.specs.quantity import parse_span_s

    if older is None and not runs:
        raise UsageError("say how old with --older AGE (such as 14d), or name runs or a group")
    before_t = time.time() - (0.0 if older is None else parse_span_s(older, "--older"))
    kept = _kept(keep)
    with shown_meanwhile("adding up what would go"):
        reply = _prune(session, runs, before_t, kept, remove=False)
    amount = f"{len(reply.items)} ({size(total_bytes(reply.items))})"
    if not as_json:
        removable_table(reply.items, reply.kept_s).write(sys.stdout)
        none = "nothing is that old" if older else "none of them has ended"
        if kept:
            none = f"no {'old enough ' if older else ''}run that has ended has other checkpoints than those that stay"
        write(f"{'would go' if dry else 'to go'}: {amount}" if reply.items else none)
    question = f"{'Free for good' if now else 'Move to the trash'}: {amount}?"
    removes = bool(reply.items) and not dry and (yes or (not as_json and _confirmed(question, "what was shown")))
    if removes:
        reply = _prune_some_at_a_time(session, reply, before_t, kept, now=now)
    if as_json:
        facts = {"removed": removes, "bytes": total_bytes(reply.items), "items": removable_facts(reply.items)}
        write_document(facts | {"kept_s": reply.kept_s})
    elif removes:
        gone = f"{len(reply.items)} ({size(total_bytes(reply.items))})"
        hint = "" if now else "; in the trash for a day, `mission-tui rm --undo RUN` takes them back"
        write(f"removed {gone}{hint}")
    unasked = reply.items and not (removes or dry or as_json or sys.stdin.isatty())
    return UsageError.exit_code if unasked else 0


def _prune_some_at_a_time(
    session: Session, shown: RemovableReply, before_t: float, kept: tuple[Keep, ...], *, now: bool
) -> RemovableReply:
    """What of `shown` has gone: of a thousand runs that takes a minute, of which a terminal shows how far it is."""
    from msgspec import structs

    ids = list(dict.fromkeys(item.run for item in shown.items))
    gone: list[Removable] = []
    for at in range(0, len(ids), _AT_A_TIME):
        some = tuple(ids[at : at + _AT_A_TIME])
        with shown_meanwhile(f"removing: {at:,} of {len(ids):,} runs" if len(ids) > _AT_A_TIME else ""):
            gone += _prune(session, some, before_t, kept, remove=True, now=now).items
    return structs.replace(shown, items=tuple(gone))


def _prune(
    session: Session, runs: tuple[str, ...], before_t: float, keep: tuple[Keep, ...], *, remove: bool, now: bool = False
) -> RemovableReply:
    from mission_tui.ipc.requests import Prune

    with session.connect() as connection:
        return connection.ask(
            lambda id_: Prune(id=id_, runs=runs, before_t=before_t, keep=keep, remove=remove, now=now)
        )


def _kept(words: str | None) -> tuple[Keep, ...]:
    """The checkpoints to keep. Raises `UsageError`."""
    if words is None:
        return ()
    kept = tuple(dict.fromkeys(word.strip() for word in words.split(",") if word.strip()))
    for word in kept:
        if word not in _KEEP:
            raise UsageError(f"--keep {word!r} is not a checkpoint: give best, last or both{nearest(word, _KEEP)}")
    if not kept:
        raise UsageError("--keep needs best, last or both")
    return cast("tuple[Keep, ...]", kept)


def total_bytes(items: Sequence[Removable]) -> int:
    """Bytes of all of them."""
    return sum(item.size_bytes for item in items)


def removable_facts(items: Sequence[Removable]) -> list[dict[str, Any]]:
    """Each with its run, checkpoint, bytes and since when it lies in the trash."""
    return [msgspec.to_builtins(item) for item in items]


def removable_table(items: Sequence[Removable], kept_s: float) -> Table:
    """A row each; what lies in the trash says for how long it can be taken back."""
    table = Table(("run", "name", "what", "bytes", "goes for good in"), numbers=frozenset({"bytes"}))
    for item in items:
        left = None if item.trashed_t is None else max(0.0, item.trashed_t + kept_s - time.time())
        what = "run" if item.checkpoint is None else f"checkpoint {item.checkpoint}"
        table.add(item.run, item.name, what, size(item.size_bytes), duration(left))
    return table
