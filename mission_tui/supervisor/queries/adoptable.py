"""Foreign runs, each with everything that it would run: what a person is shown before it is adopted."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import structs

from mission_tui.errors import UsageError
from mission_tui.fleet.specs.own_code import own_code
from mission_tui.fleet.text import clean, spelled_out
from mission_tui.ipc.replies import Adoptable, AdoptableReply, AdoptRow
from mission_tui.ipc.requests import GetAdoptable
from mission_tui.paths import sha256
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.seal import Seals, digest_of, orders_of, words_of_change
from mission_tui.supervisor.runs.catalog import RunCatalog, resolve_run
from mission_tui.supervisor.runs.run_on_disk import RunOnDisk, newest_attempt, read_run, read_specs

SHEET_CHARACTERS = 1 << 20
"""More of one run is not read through by a person; what needs more to be shown is not adopted."""
ANSWER_CHARACTERS = 2 << 20
"""In one answer; further runs are asked for again, by name."""
MOST_ATTEMPTS = 1000
"""A run that is started a few times a day for a year has fewer."""
MOST_ORDERS_BYTES = 16 << 20
"""Of all launch orders of a run together."""


async def adoptable(core: RunCatalog, seals: Seals, request: GetAdoptable) -> AdoptableReply:
    """What each run would run. Raises `UsageError` for one that is ours already."""
    named = [resolve_run(core, ref) for ref in request.runs]
    items: list[Adoptable] = []
    wanted = list(dict.fromkeys(named or core.store.run_ids()))
    room = ANSWER_CHARACTERS
    while wanted and room > 0:
        run_id = wanted.pop(0)
        if not named:
            core.fetch(run_id)
            await asyncio.sleep(0)
        sheet = await asyncio.to_thread(adoption_sheet, core.run_dir(run_id), seals)
        name = core.store.view(run_id).name if run_id in core.store else run_id
        if sheet is not None:
            items.append(structs.replace(sheet, name=name))
            room -= sum(len(row.value) for row in sheet.rows)
        elif named and not request.every:
            raise UsageError(f"{name} is yours already")
    return AdoptableReply(re=request.id, items=tuple(items), more=tuple(wanted))


def adoption_sheet(run: RunDir, seals: Seals) -> Adoptable | None:
    """Why the run is not ours, or not as it was, and what it would run; None for one that is ours as it was.

    The digest is empty, and the reason says why, for one that cannot be adopted.
    """
    attempts = run.attempts()
    sizes = [size for number in attempts if (size := _size(run.attempt(number).launch)) is not None]
    if len(attempts) > MOST_ATTEMPTS or sum(sizes) > MOST_ORDERS_BYTES:
        why = seals.check(run, attempts[-1]).foreign or "it may be yours"
        return _refused(run, why, f"it has {len(attempts):,} attempts, and orders of {sum(sizes):,} bytes")
    with_order = [number for number in attempts if _size(run.attempt(number).launch) is not None]
    states = [seals.check(run, number) for number in with_order or [1]]
    foreign = next((sealed.foreign for sealed in states if sealed.foreign), "")
    why = foreign or next((words for sealed in states if (words := words_of_change(sealed.changed))), "")
    if not why:
        return None
    raw_digest, found, orders = digest_of(run), read_run(run), dict(orders_of(run))
    rows = tuple(dict.fromkeys(_rows(found, orders.values())))
    if found.unreadable:
        return _refused(run, why, found.unreadable)
    if newest_attempt(found) not in orders:
        return _refused(run, why, f"the launch order of its newest attempt, {newest_attempt(found)}, cannot be read")
    if sum(len(row.value) for row in rows) > SHEET_CHARACTERS:
        return _refused(run, why, f"what it would run takes more than {SHEET_CHARACTERS:,} characters to show")
    # The rows are part of it: what was shown was read after what was digested, and may have been changed in between.
    said = msgspec.json.encode((raw_digest, rows))
    return Adoptable(run=run.id, name="", foreign=bool(foreign), why=why, rows=rows, digest=sha256(said).hexdigest())


def _refused(run: RunDir, why: str, against: str) -> Adoptable:
    return Adoptable(run=run.id, name="", why=f"{why}; it cannot be adopted: {clean(against)}", rows=(), digest="")


def _size(path: Path) -> int | None:
    """Bytes of what bears the name; None where nothing does."""
    with suppress(OSError):
        return path.lstat().st_size
    return None


def _rows(found: RunOnDisk, orders: Iterable[LaunchOrder]) -> Iterator[AdoptRow]:
    """Everything that any attempt of it was started with, and what its specs name besides; variables come last."""
    orders = list(orders)
    for order in orders:
        yield _row("command", shlex.join(order.argv))
        yield _row("python", order.python or (order.argv[0] if order.argv else ""))
        yield _row("folder", order.cwd)
    for spec in (spec for spec in read_specs(found) if spec is not None):
        yield _row("environment", spec.env.id)
        for part in own_code(spec):
            yield _row(part.kind, part.value)
    for order in orders:
        for name, value in sorted(order.env.items()):
            yield _row("variable", f"{name}={value}")
        for name in sorted(set(order.withheld) - order.env.keys()):
            yield _row("variable", f"{name}=(a secret, which is not written down)")


def _row(kind: str, value: str) -> AdoptRow:
    """The whole of `value`: nothing that a person agrees to is cut off or taken out."""
    return AdoptRow(kind, spelled_out(value))
