"""Cores, memory and disk: what trainings will share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mission_tui.cli.doctor_checks.check import Check
from mission_tui.cli.tables.numbers import gibibytes

__all__ = ["checks"]

RAM_LOW_BYTES = 2 << 30
DISK_LOW_BYTES = 5 << 30


def checks(root: Path) -> list[Check]:
    """One check per resource; disk is that of the runs root."""
    return [_cores(), _memory(), _disk(root)]


def _cores() -> Check:
    cores, present = len(os.sched_getaffinity(0)), os.cpu_count()
    detail = f"{cores} usable of {present}"
    if cores < 2:
        return Check(
            "cores", "warn", detail, "one core trains one run at a time; expect each further run to halve the speed"
        )
    return Check("cores", "ok", detail)


def _memory() -> Check:
    import psutil

    memory = psutil.virtual_memory()
    detail = f"{gibibytes(memory.available)} free of {gibibytes(memory.total)}"
    if memory.available < RAM_LOW_BYTES:
        return Check(
            "memory", "warn", detail, "a training takes about 0.6G before its rollout buffer: end other programs first"
        )
    return Check("memory", "ok", detail)


def _disk(root: Path) -> Check:
    ground = root
    while not ground.exists():
        ground = ground.parent
    usage = shutil.disk_usage(ground)
    detail = f"{gibibytes(usage.free)} free of {gibibytes(usage.total)} at {ground}"
    if usage.free < DISK_LOW_BYTES:
        return Check(
            "disk", "warn", detail, "checkpoints may fill it: free some space or move the runs root with --runs-dir"
        )
    return Check("disk", "ok", detail)
