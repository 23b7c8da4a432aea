"""A run's name, notes, labels and owner: `rename`, `note`, `label`; `adopt` shows what a foreign run would run, and
takes it over once a person agrees. Id and folder stay. And frees space: `clean` removes what dead runs left behind,
`rm` and `prune` move ended runs to the trash.

Only what was shown is removed; leftovers only while the supervisor still finds them to be ours.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from mission_tui.cli.answers import merged, print_accepted
from mission_tui.cli.follow_runs import views_of
from mission_tui.cli.options import complete_runs, examples, json_option, run_argument, runs_argument, text_of
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import Table, confirm, print_error, shown_meanwhile, write
from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.text import clean
from mission_tui.present.numbers import duration, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mission_tui.ipc.replies import Adoptable, LeftoverRow, Removable, RemovableReply
    from mission_tui.ipc.requests import Keep


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
    mission-tui label @last +paper +draft
    mission-tui label @last -draft
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
    epilog=examples(
        "adopt heavy-3f9a",
        "--runs-dir copy adopt --all --trust",
    ),
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
    epilog=examples(
        "rm @last",
        "rm --undo heavy-3f9a",
        "rm --list",
    ),
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
    epilog=examples(
        "prune --older 14d --dry-run",
        "prune --older 2d --keep best,last --yes",
    ),
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
