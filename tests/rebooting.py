"""A reboot without one: every process of a runs root is gone at once, and what was recorded belongs to another boot."""

from __future__ import annotations

from pathlib import Path

from mission_tui.supervisor.identity import boot_id

__all__ = ["ANOTHER_BOOT", "forget_boot"]

ANOTHER_BOOT = "00000000-0000-0000-0000-000000000000"


def forget_boot(root: Path) -> int:
    """Have every process that was recorded on this boot belong to an earlier one; how many attempts that were."""
    present, changed = boot_id(), 0
    for identity in root.glob("*/attempts/*/identity.json"):
        text = identity.read_text(encoding="utf-8")
        if present in text:
            identity.write_text(text.replace(present, ANOTHER_BOOT), encoding="utf-8")
            changed += 1
    return changed
