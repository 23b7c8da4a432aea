"""`limits.toml` files on disk. One that is absent limits nothing; one that is broken is an error, never passed over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mission_tui.errors import PresetError
from mission_tui.fleet.capacity.headroom import MachineLimits, read_limits, tightest
from mission_tui.records.files.given_files import read_toml


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
