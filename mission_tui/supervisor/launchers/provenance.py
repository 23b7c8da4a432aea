"""From what an attempt was launched: asked of a short process with the caller's interpreter, folder and environment.

It runs beside the attempt, never before it. What cannot be found out is not known; only a verdict waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from mission_tui.errors import MissionError
from mission_tui.fleet.events.provenance import Provenance, differences, upgraded
from mission_tui.fleet.resume.verdict import Change
from mission_tui.records.atomic import write_atomic, write_json
from mission_tui.records.runs.code_files import read_provenance
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host.children import Task, run_task
from mission_tui.supervisor.launchers.order import Caller

_PROBE = Path(__file__).with_name("provenance_probe.py")
"""Named, never imported: what it loads (packages' metadata, mail headers, OpenSSL) costs a start 15 ms."""

PROVENANCE = "provenance"
LIMIT_S = 20.0
FRESH_S = 5.0
"""How long what was seen holds: the runs of one launch, and a verdict and the attempt that follows it, ask once."""

PATIENCE_S = 3.0
"""How long a verdict waits; without an answer it says nothing about it."""

_UNKNOWN = "whether code, packages and machine are the same cannot be said"
Compare = Callable[[Provenance, Provenance], tuple[Change, ...]]
log = logging.getLogger(__name__)


class _Probe(Struct, frozen=True):
    """One look from `caller`, under way or over."""

    caller: Caller
    sources: tuple[str, ...]
    at: float
    work: asyncio.Task[_ProbeAnswer | None]


class _ProbeAnswer(msgspec.Struct, frozen=True):
    """What the probe says: `diffs` are changes in working trees by file name."""

    provenance: Provenance
    diffs: dict[str, str]


class ProvenanceWatch:
    """Looks from where attempts are launched, and remembers each look for a few seconds."""

    def __init__(self) -> None:
        self._looks: list[_Probe] = []
        self._why = ""
        """Why the last look failed, if one did."""
        # The event loop itself holds tasks only weakly.
        self._recording: set[asyncio.Task[None]] = set()
        self.failed: Callable[[str, str, str], None] = lambda _run, _duty, _why: None
        """Hears for which run which duty failed, and why."""

    def record(self, run: RunDir, attempt: int, caller: Caller, sources: tuple[str, ...] = ()) -> None:
        """Have what the attempt was launched from written beside it, soon."""
        task = asyncio.create_task(self._record(run, attempt, caller, sources), name=f"provenance {run.id}")
        self._recording.add(task)
        task.add_done_callback(self._recording.discard)

    async def no_longer_same(
        self, run: RunDir, attempt: int, caller: Caller, sources: tuple[str, ...]
    ) -> tuple[Change, ...]:
        """A note for each thing that differs between the recorded attempt and one that `caller` would launch now."""
        return await self._compared(run, attempt, caller, sources, differences, PATIENCE_S) or ()

    async def upgraded(self, run: RunDir, attempt: int, caller: Caller) -> tuple[Change, ...] | None:
        """A note for each package that was changed under the recorded attempt of `caller` since; None: not known."""
        return await self._compared(run, attempt, caller, (), upgraded, LIMIT_S)

    async def _compared(
        self, run: RunDir, attempt: int, caller: Caller, sources: tuple[str, ...], compare: Compare, patience_s: float
    ) -> tuple[Change, ...] | None:
        was = await asyncio.to_thread(read_provenance, run, attempt)
        if was is None:
            return None
        try:
            async with asyncio.timeout(patience_s):
                seen = await self._seen(caller, sources)
        except TimeoutError:
            return None
        return None if seen is None else compare(was, seen.provenance)

    async def every_difference(
        self, run: RunDir, attempt: int, caller: Caller, sources: tuple[str, ...]
    ) -> tuple[Change, ...]:
        """The same for whoever asked for nothing else: down to each package, however long it takes to find out, and as
        it is now, because files may have been edited since the last look.

        That something cannot be held against what was is a note too.
        """
        was = await asyncio.to_thread(read_provenance, run, attempt)
        if was is None:
            return (Change("provenance", "not recorded", "not compared", "note", _UNKNOWN),)
        seen = await self._seen(caller, sources, anew=True)
        if seen is None:
            return (Change("provenance", "recorded", "not known", "note", _UNKNOWN),)
        return differences(was, seen.provenance, every=True)

    async def _record(self, run: RunDir, attempt: int, caller: Caller, sources: tuple[str, ...]) -> None:
        seen = await self._seen(caller, sources)
        if seen is None:
            self.failed(run.id, PROVENANCE, f"what it was launched from is not known: {self._why or 'no answer'}")
            return
        try:
            await asyncio.to_thread(_write, run, attempt, seen)
        except MissionError as error:
            # A full disk, or the run was undone meanwhile.
            log.warning("%s", error)
            self.failed(run.id, PROVENANCE, str(error))

    async def _seen(self, caller: Caller, sources: tuple[str, ...], *, anew: bool = False) -> _ProbeAnswer | None:
        now = time.monotonic()
        self._looks = [look for look in self._looks if not look.work.done() or now - look.at < FRESH_S]
        for look in () if anew else self._looks:
            if (look.caller, look.sources) == (caller, sources):
                return await asyncio.shield(look.work)
        look = _Probe(caller, sources, now, asyncio.create_task(self._probe(caller, sources), name="provenance"))
        self._looks.append(look)
        return await asyncio.shield(look.work)

    async def _probe(self, caller: Caller, sources: tuple[str, ...]) -> _ProbeAnswer | None:
        words = (caller.python or sys.executable, str(_PROBE), *sources)
        task = Task(words, caller.cwd, caller.environ, limits=caller.limits)
        try:
            async for said in run_task(task, LIMIT_S):
                return msgspec.convert(said, type=_ProbeAnswer)
        except (MissionError, msgspec.ValidationError) as error:
            log.warning("what a run is launched from is not known: %s", error)
            self._why = str(error)
        return None


def _write(run: RunDir, attempt: int, seen: _ProbeAnswer) -> None:
    folder = run.attempt(attempt)
    for repository in seen.provenance.repositories:
        diff = seen.diffs.get(repository.diff_file)
        if diff and Path(repository.diff_file).name == repository.diff_file:
            write_atomic(folder.path / repository.diff_file, diff.encode(), mode=0o600)
    write_json(folder.provenance, seen.provenance, mode=0o600)
