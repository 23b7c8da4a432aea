"""Two files that outlive a screen: what the person chose about its look, and when they last looked at this runs root.

The first is JSON in their state folder, the second a number beside the runs, or there too where those may not be
written. A screen never fails or waits long because of either. Names that only a newer version knows stay in the first;
the second only moves forward, even with several screens.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from mission_tui.errors import MissionError
from mission_tui.paths import preferences_path, socket_dir

_MOST_BYTES = 64 * 1024
_PATIENCE_S = 3.0
"""A home folder that hangs must not keep the screen from closing."""


class PreferencesFile:
    """The table in the file at `path`; if two screens change the same setting, the last one wins."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> PreferencesFile:
        """The file of this user."""
        return cls(preferences_path(environ))

    def read(self) -> dict[str, object]:
        """The stored table; empty without a readable file."""
        return self._table() or {}

    def write(self, changes: Mapping[str, object]) -> None:
        """Store `changes`; None removes a name. Waits for seconds at most, and failing is silent."""
        work = threading.Thread(target=self._merge, args=(dict(changes),), daemon=True)
        work.start()
        work.join(_PATIENCE_S)

    def _merge(self, changes: dict[str, object]) -> None:
        from mission_tui.records.files.atomic import write_json

        with suppress(OSError, MissionError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            table = self._table()
            if table is None:
                self.path.replace(self.path.with_name(f"{self.path.name}.unread"))
            kept = (table or {}) | changes
            write_json(self.path, {name: value for name, value in kept.items() if value is not None})

    def _table(self) -> dict[str, object] | None:
        """None for a file that cannot be read as a table."""
        from mission_tui.plain_files import read_given

        try:
            raw = read_given(self.path, _MOST_BYTES)
        except FileNotFoundError:
            return {}
        except OSError:
            return None
        try:
            return msgspec.json.decode(raw, type=dict[str, object])
        except (ValueError, RecursionError):
            return None


class LastSeen:
    """`path` holds unix seconds."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, root: Path, environ: Mapping[str, str], *, ours: bool = True) -> LastSeen:
        """The file of this user: beside the runs only if the runs root is `ours`, even if another could be written."""
        from mission_tui.records.runs.layout import supervisor_dir

        ground = supervisor_dir(root) if supervisor_dir(root).exists() else root
        if ours and (os.access(ground, os.W_OK) or not ground.exists()):
            return cls(supervisor_dir(root) / "last-seen")
        state = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".local" / "state")
        return cls(Path(state) / "mission-tui" / f"last-seen-{socket_dir(root).name}")

    def read(self) -> float | None:
        """None the first time, or when the file holds no number."""
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
