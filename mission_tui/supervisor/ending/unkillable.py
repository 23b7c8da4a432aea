"""Processes that even SIGKILL did not end: shown with pid, state and wait channel until they are gone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from mission_tui.fleet.events.observations import FlagSeen
from mission_tui.records.runs.attempt import ExitRecord
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.identity import read_stat

__all__ = ["check_unkillable", "flag_unkillable", "hanging", "who_hangs"]


def who_hangs(ended: ExitRecord) -> str:
    """Who of an ended attempt is still there, as a person would look for it; empty when nobody is."""
    return ", ".join(_sighting(left.pid, left.state, left.wchan) for left in ended.left if _exists(left.pid))


def hanging(pid: int) -> str:
    """A living process as a person would look for it: number, state letter, and what it waits for in the kernel."""
    with suppress(OSError, ValueError):
        stat = read_stat(pid)
        wchan = Path(f"/proc/{pid}/wchan").read_text(encoding="ascii")
        if stat is not None:
            return _sighting(pid, stat.state, wchan)
    return f"pid {pid}"


def flag_unkillable(core: Core, run_id: str, ended: ExitRecord) -> None:
    """Flag the run while anybody whom its keeper could not end is there."""
    pids = tuple(left.pid for left in ended.left if _exists(left.pid))
    if pids:
        core.unkillable[run_id] = pids
        core.apply(run_id, FlagSeen("unkillable", raised=True))


def check_unkillable(core: Core) -> None:
    """Take the flag away from runs whose last process is gone at last."""
    for run_id, pids in list(core.unkillable.items()):
        if not any(map(_exists, pids)):
            del core.unkillable[run_id]
            if run_id in core.store.run_ids():
                core.apply(run_id, FlagSeen("unkillable", raised=False))


def _sighting(pid: int, state: str, wchan: str) -> str:
    return f"pid {pid} (state {state}{f', in {wchan}' if wchan else ''})"


def _exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
