"""The machine as the supervisor sees it: its meters, its limits, who else takes of it, and what runs are known to need.

One of the `limits.toml` files that is absent limits nothing; one that is broken is an error, never passed over.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from mission_tui.errors import PresetError
from mission_tui.fleet.capacity.cost import Claim
from mission_tui.fleet.capacity.headroom import MachineLimits, read_limits, tightest
from mission_tui.fleet.capacity.reference_runs import Peaks
from mission_tui.fleet.store import Store
from mission_tui.fleet.views.snapshot import HostMeters, OtherProgram
from mission_tui.paths import limits_files
from mission_tui.records.files.atomic import Reserve
from mission_tui.records.files.given_files import read_toml
from mission_tui.supervisor.gpu.watch import GpuWatch
from mission_tui.supervisor.host.ledger import OtherSupervisors, ledger_folder
from mission_tui.supervisor.host.machine import HostSampler
from mission_tui.supervisor.host.process_files import GpuHolders
from mission_tui.supervisor.runs.duties import GPU_METERS, Duties

STALE_S = 2.0
FIRST_GPU_S = 1.0


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

    async def measure(self) -> None:
        """Have fresh meters, also when none were taken for a while; a GPU's first sample is waited for a moment."""
        self.gpu.tick(wanted=True)
        if self.gpu.present() and not self.gpu.gpus:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.gpu.heard.wait(), FIRST_GPU_S)
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
