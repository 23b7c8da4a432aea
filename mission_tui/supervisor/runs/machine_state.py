"""The machine as the supervisor sees it: its meters, who else takes of it, and what runs are known to need of it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from mission_tui.fleet.capacity.cost import Claim
from mission_tui.fleet.capacity.reference_runs import Peaks
from mission_tui.fleet.store import Store
from mission_tui.fleet.views.snapshot import HostMeters, OtherProgram
from mission_tui.paths import limits_files
from mission_tui.records.files.storage import Reserve
from mission_tui.records.limits_files import LimitsFiles
from mission_tui.supervisor.gpu.watch import GpuWatch
from mission_tui.supervisor.host.ledger import OtherSupervisors, ledger_folder
from mission_tui.supervisor.host.machine import HostSampler
from mission_tui.supervisor.host.process_files import GpuHolders
from mission_tui.supervisor.runs.duties import GPU_METERS, Duties

STALE_S = 2.0
FIRST_GPU_S = 1.0


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
