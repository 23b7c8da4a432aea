"""`mission-tui clean`: what dead runs left behind, shown first, removed only when someone says so.

Only what was shown is removed, and only while it still passes the supervisor's verdict; what is unverifiable stays.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from mission_tui.cli.errors import print_error
from mission_tui.cli.options import json_option
from mission_tui.cli.session import Session, pass_session
from mission_tui.cli.terminal_output import confirm, write

if TYPE_CHECKING:
    from mission_tui.ipc.replies import LeftoverRow


@click.command("clean")
@click.option("--yes", is_flag=True, help="Remove what is found without asking.")
@json_option
@pass_session
def command(session: Session, yes: bool, as_json: bool) -> None:
    """Find leftovers of dead runs and remove them."""
    from mission_tui.cli.tables.documents import write_document

    found = _clean(session, ())
    removable = tuple(it.key for it in found if it.verdict == "ours")
    if not as_json:
        _show(found)
    if removable and (yes or (not as_json and _confirmed(len(removable)))):
        found = _clean(session, removable)
        if not as_json:
            write(f"removed {sum(it.removed for it in found)} of {len(removable)}")
    if as_json:
        write_document({"stale": [_facts(it) for it in found]})


def _clean(session: Session, remove: tuple[str, ...]) -> tuple[LeftoverRow, ...]:
    from mission_tui.ipc.requests import Clean

    with session.connect() as connection:
        return connection.ask(lambda id_: Clean(id=id_, remove=remove)).stale


def _confirmed(number: int) -> bool:
    if not sys.stdin.isatty():
        print_error("nothing was removed: add --yes to remove what is ours")
        return False
    return confirm(f"Remove {number}?")


def _facts(it: LeftoverRow) -> dict[str, Any]:
    what = {"pid": it.pid} if it.kind == "process" else {"name": it.name}
    size = {"age_s": it.age_s, "memory_bytes": it.memory_bytes, "vram_bytes": it.vram_bytes}
    return {"kind": it.kind, **what, "run": it.run, "verdict": it.verdict, **size, "removed": it.removed}


def _show(found: tuple[LeftoverRow, ...]) -> None:
    from mission_tui.cli.tables.numbers import duration, size
    from mission_tui.cli.tables.table import Table
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
