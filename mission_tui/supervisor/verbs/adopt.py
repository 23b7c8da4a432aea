"""Adopt: a run that was made elsewhere is shown with everything it would run, and taken for ours on a person's word."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator

from mission_tui.errors import UsageError
from mission_tui.fleet.specs.own_code import own_code
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.text import clean
from mission_tui.ipc.replies import Accepted, Adoptable, AdoptableReply, AdoptRow
from mission_tui.ipc.requests import Adopt, GetAdoptable
from mission_tui.ipc.sockets import TELEMETRY_SOCKET
from mission_tui.paths import socket_dir
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.seal import Seals, digest_of, orders_of
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.disk.adoption import adopt_live, load_ended
from mission_tui.supervisor.disk.known import Known, the_run
from mission_tui.supervisor.disk.run_on_disk import read_run, read_specs

__all__ = ["adopt", "adoptable"]

ROW_CHARACTERS = 2000


async def adoptable(core: Known, seals: Seals, request: GetAdoptable) -> AdoptableReply:
    """What each run would run. Raises `UsageError` for one that is ours already."""
    named = [the_run(core, ref) for ref in request.runs]
    items = []
    for run_id in dict.fromkeys(named or core.store.run_ids()):
        if not named:
            core.fetch(run_id)
            await asyncio.sleep(0)
        found = await asyncio.to_thread(_adoptable, core.run_dir(run_id), seals)
        name = core.store.view(run_id).name
        if found is not None:
            items.append(Adoptable(run=run_id, name=name, why=found[0], rows=found[1], digest=found[2]))
        elif named:
            raise UsageError(f"{name} is yours already")
    return AdoptableReply(re=request.id, items=tuple(items))


async def adopt(core: Core, request: Adopt) -> Accepted:
    """Seal the runs as they lie here, and go on with each as with one of ours. Raises `UsageError`, `StorageError`.

    A run of which something else lies there than what a person was shown is refused, with nothing adopted.
    """
    if len(request.runs) != len(request.digests):
        raise UsageError("each run that is adopted needs the digest of what was shown of it")
    chosen = [(the_run(core, ref), digest) for ref, digest in zip(request.runs, request.digests, strict=True)]
    for run_id, digest in chosen:
        run = core.run_dir(run_id)
        if await asyncio.to_thread(digest_of, run) != digest:
            raise UsageError(f"{core.name_of(run_id)} has changed since it was shown; look at it again")
        if run_id in core.live:
            raise UsageError(f"{core.name_of(run_id)} lives here; stop it first")
    for run_id, _ in chosen:
        run = core.run_dir(run_id)
        await asyncio.to_thread(_seal, core, run)
        core.forget(run_id)
        found = read_run(run)
        if found.ended_t is None:
            adopt_live(core, found)
        else:
            load_ended(core, found)
    core.changed.set()
    return Accepted(re=request.id, runs=tuple(run_id for run_id, _ in chosen))


def _seal(core: Core, run: RunDir) -> None:
    run.path.chmod(0o700)
    core.seals.adopt(run, socket_dir(core.root) / TELEMETRY_SOCKET)


def _adoptable(run: RunDir, seals: Seals) -> tuple[str, tuple[AdoptRow, ...], str] | None:
    """Why the run is foreign, what it would run, and the digest of that; None for one that is ours as it was."""
    digest = digest_of(run)
    why = ""
    for attempt in [number for number in run.attempts() if run.attempt(number).launch.exists()] or [1]:
        sealed = seals.check(run, attempt)
        changed = f"{', '.join(sealed.changed)} was changed since it was launched" if sealed.changed else ""
        why = why or sealed.foreign or changed
    return (why, tuple(dict.fromkeys(_rows(run))), digest) if why else None


def _rows(run: RunDir) -> Iterator[AdoptRow]:
    """Everything that any attempt of it was started with, and what its specs name besides; variables come last."""
    orders = orders_of(run)
    for order in orders:
        yield _row("command", shlex.join(order.argv))
        yield _row("python", order.python or (order.argv[0] if order.argv else ""))
        yield _row("folder", order.cwd)
    for spec in _specs(run):
        yield _row("environment", spec.env.id)
        for part in own_code(spec):
            yield _row(part.kind, part.value)
    for order in orders:
        for name, value in sorted(order.env.items()):
            yield _row("variable", f"{name}={value}")
        for name in sorted(set(order.withheld) - order.env.keys()):
            yield _row("variable", f"{name}=(a secret, which is not written down)")


def _specs(run: RunDir) -> Iterator[Spec]:
    found = read_run(run)
    for spec in read_specs(found):
        if spec is not None:
            yield spec


def _row(kind: str, value: str) -> AdoptRow:
    return AdoptRow(kind, clean(value, ROW_CHARACTERS))
