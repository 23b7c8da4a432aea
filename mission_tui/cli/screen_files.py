"""What is kept from screen to screen: what a person chose about its look, in one small JSON file in their state folder,
and when they last had a screen of a runs root, a number beside the runs or, where one may not, in that folder.

Neither is ever worth failing or waiting for. What is in the first file and not ours is kept: names of a newer version
beside ours, and a file that is no such table under another name. The second only ever moves forward, whichever of
several screens writes it.
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
"""A home that hangs must not keep anybody from leaving."""


class PreferencesFile:
    """The table in the file at `path`; of two screens that choose the same thing, the one that is told last counts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> PreferencesFile:
        """The file of this user."""
        return cls(preferences_path(environ))

    def read(self) -> dict[str, object]:
        """What is kept; nothing where there is no file, or none that can be read."""
        return self._table() or {}

    def write(self, changes: Mapping[str, object]) -> None:
        """Keep `changes`, of which None forgets. Waits for seconds at most; that it cannot be done is not said."""
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
        """None for what is there and cannot be read as a table."""
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
