"""A replay buffer in a boundary: never copied, because it may be gigabytes, and yet as it was at the boundary.

Between two boundaries only a few rows are overwritten. Those are set aside before they are, so that a period that is
given up can be taken back. In a checkpoint it is one npz of the rows that are filled, which is read array by array.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer

from mission_tui.errors import CheckpointError
from mission_tui.trainer.learner import Replayed

_ARRAYS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def _check_stored(path: Path) -> None:
    """We never compress, so that what is read is bounded by the file's own size."""
    with zipfile.ZipFile(path) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("a member is compressed")


class StopAskedError(Exception):
    """A stop was asked in the middle of gradient steps."""


class Replay(Replayed):
    """`buffer` with its undo; it is SB3's own, of whatever class, and is watched through its `add` and `sample`."""

    def __init__(self, buffer: ReplayBuffer, stop_asked: Callable[[], bool]) -> None:
        self._buffer: Any = buffer
        self._stop_asked = stop_asked
        self._add, self._sample = buffer.add, buffer.sample
        self._overwritten: list[tuple[int, dict[str, NDArray[Any]]]] = []
        self._position = (0, False)
        watched: Any = buffer
        watched.add, watched.sample = self.add, self.sample
        self.mark()

    @property
    def filled(self) -> int:
        """Transitions that can be sampled."""
        return int(self._buffer.size() * self._buffer.n_envs)

    @property
    def size_bytes(self) -> int:
        return sum(array.nbytes for array in self._arrays().values())

    def add(self, *arguments: Any, **named: Any) -> None:
        """SB3's `add`, after what it overwrites was set aside."""
        buffer = self._buffer
        rows = [buffer.pos] if buffer.full else []
        following = (buffer.pos + 1) % buffer.buffer_size
        if buffer.optimize_memory_usage and (buffer.full or following == 0):
            rows.append(following)
        for row in rows:
            self._overwritten.append((row, {name: array[row].copy() for name, array in self._arrays().items()}))
        self._add(*arguments, **named)

    def sample(self, *arguments: Any, **named: Any) -> Any:
        """SB3's `sample`; a stop ends the gradient steps here. Raises `StopAskedError`."""
        if self._stop_asked():
            raise StopAskedError
        return self._sample(*arguments, **named)

    def mark(self) -> None:
        self._overwritten.clear()
        self._position = (int(self._buffer.pos), bool(self._buffer.full))

    def rewind(self) -> None:
        """Back to the last mark."""
        arrays = self._arrays()
        for row, was in reversed(self._overwritten):
            for name, values in was.items():
                arrays[name][row] = values
        self._overwritten.clear()
        self._buffer.pos, self._buffer.full = self._position

    def write(self, path: Path) -> None:
        self.rewind()
        pos, full = self._position
        # With one array for both, the row after the last transition is its next observation.
        shared = self._buffer.optimize_memory_usage
        rows = self._buffer.buffer_size if full or shared else pos
        members = {name: array[:rows] for name, array in self._arrays().items()}
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, position=np.array([pos, full, self._buffer.buffer_size]), **members)

    def read(self, path: Path) -> str:
        """Raises `CheckpointError` for anything else than what was written."""
        try:
            _check_stored(path)
            with np.load(path, allow_pickle=False) as members:
                said = self._take(members)
        except (OSError, ValueError, KeyError, EOFError, MemoryError, zipfile.BadZipFile) as error:
            raise CheckpointError(f"{path} does not hold a replay buffer: {type(error).__name__}: {error}") from error
        self.mark()
        return said

    def _take(self, members: Any) -> str:
        buffer, arrays = self._buffer, self._arrays()
        pos, full, size = (int(number) for number in members["position"])
        names = set(members.files) - {"position"}
        if names != arrays.keys():
            return f"it begins empty, because the checkpoint's is of another kind ({', '.join(sorted(names))[:120]})"
        lanes = members["rewards"].shape[1]
        if (size, lanes) == (buffer.buffer_size, buffer.n_envs):
            for name, array in arrays.items():
                kept = members[name]
                array[: len(kept)] = kept
            buffer.pos, buffer.full = pos, bool(full)
            return ""
        return self._refill(members, pos, full=bool(full))

    def _refill(self, members: Any, pos: int, *, full: bool) -> str:
        """The newest transitions that fit a buffer of another size, or of other environments side by side."""
        buffer = self._buffer
        if buffer.optimize_memory_usage or isinstance(buffer, NStepReplayBuffer):
            return "it begins empty, because what follows what is not known in a buffer of another size"
        rows = 0
        for name, array in self._arrays().items():
            kept = members[name]
            ordered = np.roll(kept, -pos, axis=0) if full else kept
            flat = ordered.reshape(-1, *kept.shape[2:])
            rows = min(len(flat) // buffer.n_envs, buffer.buffer_size)
            if rows:
                array[:rows] = flat[-rows * buffer.n_envs :].reshape(rows, buffer.n_envs, *kept.shape[2:])
        buffer.pos, buffer.full = rows % buffer.buffer_size, rows == buffer.buffer_size
        return f"it is of another size, and has the newest {rows * buffer.n_envs:,} transitions"

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Its arrays by name, those of dictionaries by key, each of shape (rows, environments, ...)."""
        found: dict[str, NDArray[Any]] = {}
        for name in _ARRAYS:
            value = getattr(self._buffer, name, None)
            if isinstance(value, dict):
                found |= {f"{name}.{key}": part for key, part in value.items()}
            elif value is not None:
                found[name] = value
        return found
