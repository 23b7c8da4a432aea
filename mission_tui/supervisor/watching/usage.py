"""What the processes of each live run take of the machine, read from /proc: one small file a process and look."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mission_tui.fleet.observations import UsageSeen
from mission_tui.fleet.snapshot import Usage
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.watching.vram import vram_of

__all__ = ["ProcessStat", "UsageMeter", "read_stat"]

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """A process at one moment: processor seconds so far, resident bytes, threads; `started` tells a reused number."""

    cpu_s: float
    rss_bytes: int
    threads: int
    started: int


class UsageMeter:
    """Looked at every other beat. What a run took is known from the second look on; who came in between counts next."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._looked_at = 0.0
        self._before: dict[int, ProcessStat] = {}

    def look(self, now: float) -> None:
        """Note for every live run what it took since the last look, at monotonic `now`."""
        elapsed_s, self._looked_at = now - self._looked_at, now
        before, self._before = self._before, {}
        for run_id in list(self._core.live):
            pids = self._core.store.run(run_id).seen.pids
            family = [pid for pid in (pids.keeper, pids.trainer, *pids.workers) if pid is not None]
            stats = {pid: stat for pid in family if (stat := read_stat(pid)) is not None}
            self._before.update(stats)
            self._core.note(run_id, UsageSeen(self._usage(stats, before, elapsed_s)))

    def _usage(self, stats: dict[int, ProcessStat], before: dict[int, ProcessStat], elapsed_s: float) -> Usage | None:
        known = [(stat, then) for pid, stat in stats.items() if (then := before.get(pid)) is not None]
        spent_s = sum(stat.cpu_s - then.cpu_s for stat, then in known if stat.started == then.started)
        if not known or elapsed_s <= 0.0:
            return None
        held = [vram for pid in stats if (vram := vram_of(pid, self._core.gpu.held)) is not None]
        return Usage(
            cpu_percent=float(round(100.0 * spent_s / elapsed_s)),
            rss_bytes=sum(stat.rss_bytes for stat in stats.values()) // _MIB * _MIB,
            threads=sum(stat.threads for stat in stats.values()),
            processes=len(stats),
            vram_bytes=sum(held) if held else None,
        )


def read_stat(pid: int) -> ProcessStat | None:
    """The process now; None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The command, in brackets, may hold anything.
    fields = text[text.rindex(b")") + 2 :].split()
    user, system, threads, started, pages = (int(fields[at]) for at in (11, 12, 17, 19, 21))
    return ProcessStat((user + system) / _TICKS_A_SECOND, pages * _PAGE, threads, started)
