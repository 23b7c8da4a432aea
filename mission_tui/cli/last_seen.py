"""When this user last had a screen of a runs root: a number in a file beside the runs or, where one may not, at home.

It only ever moves forward, whichever of several screens writes it, and it is never worth failing for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mission_tui.errors import MissionError
from mission_tui.paths import socket_dir

__all__ = ["LastSeen"]


class LastSeen:
    """`path` holds unix seconds."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, root: Path, environ: Mapping[str, str], *, ours: bool = True) -> LastSeen:
        """The file of this user: a runs root that is not `ours` is not written to, even where that would be allowed."""
        from mission_tui.records.runs.layout import supervisor_dir

        ground = supervisor_dir(root) if supervisor_dir(root).exists() else root
        if ours and (os.access(ground, os.W_OK) or not ground.exists()):
            return cls(supervisor_dir(root) / "last-seen")
        state = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".local" / "state")
        return cls(Path(state) / "mission-tui" / f"last-seen-{socket_dir(root).name}")

    def read(self) -> float | None:
        """None for the first time, or when the file says nothing sensible."""
        try:
            return float(self.path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def write(self, t: float) -> None:
        """Remember unix time `t`, unless a later one is remembered."""
        from mission_tui.records.files.atomic import write_atomic

        before = self.read()
        if before is not None and before >= t:
            return
        with suppress(OSError, MissionError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(self.path, f"{t:.3f}\n".encode())
