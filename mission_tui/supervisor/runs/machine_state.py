"""The machine as the supervisor sees it: its meters, its limits, who else takes of it, and what runs are known to need;
and the supervisor's own duties that fail: a meter that cannot be read, a process that could not be started.

One of the `limits.toml` files that is absent limits nothing; one that is broken is an error, never passed over.

A failed duty is in the fleet's journal once for each reason, counted, and shown in every snapshot until it succeeds
again. What one of them raises ends neither the others nor the supervisor.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mission_tui.errors import MissionError, PresetError
from mission_tui.fleet.capacity.admission import MachineLimits, read_limits, tightest
from mission_tui.fleet.capacity.demand import Claim
from mission_tui.fleet.capacity.reference_runs import Peaks
from mission_tui.fleet.events.findings import FailedDuty, failed_again
from mission_tui.fleet.store import Store
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.snapshot import HostMeters, OtherProgram
from mission_tui.paths import limits_files
from mission_tui.records.atomic import Reserve
from mission_tui.records.given_files import read_toml
from mission_tui.supervisor.gpu.watch import GpuWatch
from mission_tui.supervisor.host.ledger import OtherSupervisors, ledger_folder
from mission_tui.supervisor.host.machine import HostSampler
from mission_tui.supervisor.host.process_files import GpuHolders

STALE_S = 2.0
FIRST_GPU_S, DECISIVE_S = 2.0, 5.0
"""So long the first word about the GPUs is waited for where something is shown, and where something is decided by it:
a driver that nobody has used for a while starts the GPU first.
"""


class LimitsFiles:
    """Looked at whenever somebody asks, and read again only when one of them was changed."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = tuple(paths)
        self._as_of: tuple[object, ...] | None = None
        self._limits = MachineLimits()
        self._fault: PresetError | None = None

    def read(self) -> MachineLimits:
        """What they say now, the tighter of each limit. Raises `PresetError` naming file, key and remedy."""
        as_of = tuple(map(_state, self._paths))
        if as_of != self._as_of:
            self._as_of, self._fault = as_of, None
            there = [path for path, state in zip(self._paths, as_of, strict=True) if state is not None]
            try:
                self._limits = tightest([read_limits(read_toml(path), path) for path in there])
            except PresetError as error:
                self._fault = error
        if self._fault is not None:
            raise self._fault
        return self._limits


def _state(path: Path) -> tuple[int, int, int] | None:
    """What changes when the file does; None when there is none."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    except OSError:
        return (0, 0, 0)
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


class MachineState:
    """`holders` are the processes that hold GPU memory, `others` programs that belong to no run, as `survey` found
    them: it looks if the last look is old, and says whether it looked. `peaks` are what ended runs took, `limits` what
    runs may take. `unmeasured` are the live runs whose marginal gain is not measured yet.
    """

    def __init__(self, host: HostSampler, reserve: Reserve, duties: Duties, store: Store) -> None:
        self.host = host
        self._reserve = reserve
        self._duties = duties
        self._store = store
        self.gpu = GpuWatch(partial(duties.report, GPU_METERS))
        self.holders = GpuHolders()
        self.other_supervisors = OtherSupervisors(ledger_folder(os.environ))
        self.limits = LimitsFiles(limits_files(os.environ))
        self.peaks = Peaks()
        self.others: tuple[OtherProgram, ...] = ()
        self.survey: Callable[[], Awaitable[bool]] = _nothing_new
        self.unmeasured: tuple[str, ...] = ()
        self._sampled_at = 0.0

    def sample(self) -> None:
        """Take in the machine's meters of this moment."""
        self._sampled_at = time.monotonic()
        host = self._duties.attempt("CPU and memory meters", self._sampled_host, None)
        if host is not None:
            self._store.observe_machine(host, self.gpu.gpus)

    def _sampled_host(self) -> HostMeters | None:
        note = self.gpu.note
        return self.host.sample(note, self.other_supervisors.note, disk_full=self._reserve.needed, others=self.others)

    async def measure(self, first_gpu_s: float = FIRST_GPU_S) -> None:
        """Have fresh meters, also when none were taken for a while; a GPU's first sample is waited for a moment."""
        await self.gpu.first_word(first_gpu_s)
        if await self.survey() or time.monotonic() - self._sampled_at > STALE_S:
            self.sample()

    def reserved(self, *, trusted: bool) -> list[Claim]:
        """What other supervisors have reserved: those of this user (`trusted`), or those of other users."""
        others = self.other_supervisors.others
        return [claim for each in others if each.trusted == trusted for claim in each.claims]

    def close(self) -> None:
        """End the GPU probe, and take back what is promised here."""
        self.gpu.close()
        self.other_supervisors.close()


async def _nothing_new() -> bool:
    return False


log = logging.getLogger(__name__)
Result = TypeVar("Result")
GPU_METERS = "GPU meters"
"""This duty's failure is in the machine's own note."""

_AGAIN_S = 600.0
"""A duty that fails for the same reason every other time is not journaled each time."""


class _Journal(Protocol):
    def duty_failed(self, duty: str, why: str) -> None: ...

    def duty_done_again(self, duty: str, times: int) -> None: ...


def reason_of(error: BaseException) -> str:
    """What `error` says, in one line."""
    said = str(error) if isinstance(error, OSError | MissionError) else f"{type(error).__name__}: {error}"
    return clean(said.removesuffix(": "), 300)


class Duties:
    """Those that fail now, by name. `show` takes them whenever they change."""

    def __init__(self, journal: _Journal, show: Callable[[tuple[FailedDuty, ...]], None]) -> None:
        self._journal = journal
        self._show = show
        self.failed: dict[str, FailedDuty] = {}
        self._journaled: dict[str, tuple[str, float]] = {}
        """The reason that was journaled last, by duty, and when (monotonic)."""
        self._told_done: set[str] = set()

    def attempt(self, duty: str, work: Callable[[], Result], otherwise: Result) -> Result:
        """What `work` returns, or `otherwise` where it raises: the reason is then a fact."""
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - whatever one duty raises must end no other
            self.fail(duty, reason_of(error), error)
            return otherwise
        self.done(duty)
        return result

    def report(self, duty: str, why: str) -> None:
        """`duty` failed because of `why`; it was done where that is empty."""
        if why:
            self.fail(duty, why)
        else:
            self.done(duty)

    def follow(self, duty: str, task: asyncio.Task[Any]) -> None:
        """Take in how `task`, which carries out `duty`, ends."""

        def ended(task: asyncio.Task[Any]) -> None:
            if task.cancelled():
                return
            error = task.exception()
            if error is None:
                self.done(duty)
            else:
                self.fail(duty, reason_of(error), error)

        task.add_done_callback(ended)

    def fail(self, duty: str, why: str, error: BaseException | None = None) -> None:
        """Take in that `duty` failed because of `why`."""
        known = self.failed.get(duty)
        news = failed_again(known, duty, why, time.time())
        self.failed[duty] = news
        said, at = self._journaled.get(duty, ("", 0.0))
        if said != news.why or (known is None and time.monotonic() - at > _AGAIN_S):
            log.warning("%s failed: %s", duty, why, exc_info=error)
            # Before it is written: the journal itself may be what fails.
            self._journaled[duty] = news.why, time.monotonic()
            self._told_done.discard(duty)
            self._journal.duty_failed(duty, news.why)
        self._show(tuple(self.failed.values()))

    def done(self, duty: str) -> None:
        """`duty` was done."""
        known = self.failed.pop(duty, None)
        if known is not None:
            if duty not in self._told_done:
                self._journal.duty_done_again(duty, known.times)
            self._told_done.add(duty)
            self._show(tuple(self.failed.values()))
