"""A reboot without one: every process of a runs root is gone at once, and what was recorded belongs to another boot."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from mission_tui.procfs import boot_id
from tests.waiting import until

__all__ = ["ANOTHER_BOOT", "forget_boot", "power_cut", "processes_of"]

ANOTHER_BOOT = "00000000-0000-0000-0000-000000000000"


def processes_of(root: Path) -> list[psutil.Process]:
    """Every living process whose words or environment name the runs root: keepers too, which only name a run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, psutil.Error):
            words = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            process = psutil.Process(int(folder.name))
            if os.fsencode(root) in words and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def power_cut(processes: Sequence[psutil.Process]) -> None:
    """End them all, and none before the others stand still: nobody sees another one die."""
    for how in ("suspend", "kill"):
        for process in processes:
            with suppress(psutil.Error):
                getattr(process, how)()
    until(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes), 10)


def forget_boot(root: Path) -> int:
    """Have every process that was recorded on this boot belong to an earlier one; how many attempts that were."""
    present, changed = boot_id(), 0
    for identity in root.glob("*/attempts/*/identity.json"):
        text = identity.read_text(encoding="utf-8")
        if present in text:
            identity.write_text(text.replace(present, ANOTHER_BOOT), encoding="utf-8")
            changed += 1
    return changed
