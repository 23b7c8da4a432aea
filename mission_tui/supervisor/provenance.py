"""From what an attempt was launched: asked of a short process with the caller's interpreter, folder and environment.

It runs beside the attempt, never before it. What cannot be found out is not known; only a verdict waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mission_tui.errors import DamagedError, MissionError
from mission_tui.fleet.provenance import Provenance, differences
from mission_tui.fleet.verdict import Change
from mission_tui.records.atomic import write_atomic, write_json
from mission_tui.records.layout import RunDir
from mission_tui.records.regular import open_regular
from mission_tui.supervisor import provenance_probe
from mission_tui.supervisor.caller import Caller
from mission_tui.supervisor.tasks import Task, run_task

__all__ = ["ProvenanceWatch", "read_provenance"]

LIMIT_S = 20.0
FRESH_S = 5.0
"""How long what was seen holds: the runs of one launch, and a verdict and the attempt that follows it, ask once."""

PATIENCE_S = 3.0
"""How long a verdict waits; without an answer it says nothing about it."""

RECORD_BYTES = 1 << 20
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Look:
    """One look from `caller`, under way or over."""

    caller: Caller
    at: float
    work: asyncio.Task[_Seen | None]


class _Seen(msgspec.Struct, frozen=True):
    """What the probe says: `diffs` are changes in working trees by file name."""

    provenance: Provenance
    diffs: dict[str, str]


class ProvenanceWatch:
    """Looks from where attempts are launched, and remembers each look for a few seconds."""

    def __init__(self) -> None:
        self._looks: list[_Look] = []
        # The event loop itself holds tasks only weakly.
        self._recording: set[asyncio.Task[None]] = set()

    def record(self, run: RunDir, attempt: int, caller: Caller) -> None:
        """Have what the attempt was launched from written beside it, soon."""
        task = asyncio.create_task(self._record(run, attempt, caller), name=f"provenance {run.id}")
        self._recording.add(task)
        task.add_done_callback(self._recording.discard)

    async def no_longer_same(self, run: RunDir, attempt: int, caller: Caller) -> tuple[Change, ...]:
        """A note for each thing that differs between the recorded attempt and one that `caller` would launch now."""
        was = await asyncio.to_thread(read_provenance, run, attempt)
        if was is None:
            return ()
        try:
            async with asyncio.timeout(PATIENCE_S):
                seen = await self._seen(caller)
        except TimeoutError:
            return ()
        return () if seen is None else differences(was, seen.provenance)

    async def _record(self, run: RunDir, attempt: int, caller: Caller) -> None:
        seen = await self._seen(caller)
        if seen is None:
            return
        try:
            await asyncio.to_thread(_write, run, attempt, seen)
        except MissionError as error:
            # A full disk, or the run was undone meanwhile.
            log.warning("%s", error)

    async def _seen(self, caller: Caller) -> _Seen | None:
        now = time.monotonic()
        self._looks = [look for look in self._looks if not look.work.done() or now - look.at < FRESH_S]
        for look in self._looks:
            if look.caller == caller:
                return await asyncio.shield(look.work)
        look = _Look(caller, now, asyncio.create_task(_probe(caller), name="provenance"))
        self._looks.append(look)
        return await asyncio.shield(look.work)


def read_provenance(run: RunDir, attempt: int) -> Provenance | None:
    """What is recorded of the newest attempt up to `attempt` of which something is; None without."""
    for number in sorted((known for known in run.attempts() if known <= attempt), reverse=True):
        try:
            with open_regular(run.attempt(number).provenance) as file:
                return msgspec.json.decode(file.read(RECORD_BYTES), type=Provenance)
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError, DamagedError) as error:
            log.warning("%s: %s", run.attempt(number).provenance, error)
    return None


def _write(run: RunDir, attempt: int, seen: _Seen) -> None:
    folder = run.attempt(attempt)
    for repository in seen.provenance.repositories:
        diff = seen.diffs.get(repository.diff_file)
        if diff and Path(repository.diff_file).name == repository.diff_file:
            write_atomic(folder.path / repository.diff_file, diff.encode(), mode=0o600)
    write_json(folder.provenance, seen.provenance, mode=0o600)


async def _probe(caller: Caller) -> _Seen | None:
    task = Task((caller.python or sys.executable, provenance_probe.__file__), caller.cwd, caller.environ)
    try:
        async for said in run_task(task, LIMIT_S):
            return msgspec.convert(said, type=_Seen)
    except (MissionError, msgspec.ValidationError) as error:
        log.warning("what a run is launched from is not known: %s", error)
    return None
