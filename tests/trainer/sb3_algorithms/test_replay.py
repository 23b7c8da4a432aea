"""A replay buffer that goes back to the last boundary, and what a file of it is good for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

from mission_tui.errors import CheckpointError
from mission_tui.trainer.sb3_algorithms import Replay, StopAskedError

BOX, ACTIONS = spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(3)


def buffer_of(size: int, n_envs: int = 1, *, kind: str = "plain") -> Any:
    if kind == "dict":
        return DictReplayBuffer(size, spaces.Dict({"a": BOX}), ACTIONS, "cpu", n_envs=n_envs)
    shared: dict[str, Any] = {}
    if kind == "shared":
        shared = {"optimize_memory_usage": True, "handle_timeout_termination": False}
    return ReplayBuffer(size, BOX, ACTIONS, "cpu", n_envs=n_envs, **shared)


def fill(buffer: Any, numbers: range, *, kind: str = "plain") -> None:
    """A transition of each environment for each number, which is in all of it."""
    for number in numbers:
        seen: Any = np.full((buffer.n_envs, 2), number, dtype=np.float32)
        seen = {"a": seen} if kind == "dict" else seen
        numbered = np.full(buffer.n_envs, number)
        buffer.add(seen, seen, numbered, numbered, np.zeros(buffer.n_envs), [{}] * buffer.n_envs)


def arrays(replay: Replay) -> dict[str, Any]:
    return {name: array.copy() for name, array in replay._arrays().items()}


@pytest.mark.parametrize("kind", ["plain", "dict", "shared"])
@pytest.mark.parametrize("before", [3, 10, 14, 19])
def test_what_was_added_since_the_mark_is_taken_back(kind: str, before: int) -> None:
    """Also where it overwrote what was there, and where the ring was closed meanwhile."""
    buffer = buffer_of(10, kind=kind)
    replay = Replay(buffer, lambda: False)
    fill(buffer, range(before), kind=kind)
    replay.mark()
    was, place = arrays(replay), (buffer.pos, buffer.full)
    fill(buffer, range(100, 117), kind=kind)
    replay.rewind()
    assert (buffer.pos, buffer.full) == place
    rows = 10 if buffer.full else buffer.pos
    now = arrays(replay)
    # With one array for both, the row after the newest is its next observation, which overwrites the oldest.
    assert [name for name in was if not np.array_equal(was[name][:rows], now[name][:rows])] == []


def test_a_file_of_it_is_read_back_as_it_was(tmp_path: Path) -> None:
    """Bit for bit, and by a buffer of another size as far as its newest transitions fit."""
    first = buffer_of(10, 2)
    replay = Replay(first, lambda: False)
    fill(first, range(13))
    replay.mark()
    replay.write(tmp_path / "replay.npz")
    same = Replay(buffer_of(10, 2), lambda: False)
    assert same.read(tmp_path / "replay.npz") == ""
    assert all(np.array_equal(one, arrays(same)[name]) for name, one in arrays(replay).items())
    smaller = buffer_of(9, 3)
    assert "has the newest 9 transitions" in Replay(smaller, lambda: False).read(tmp_path / "replay.npz")
    assert sorted(smaller.rewards.ravel()) == [8.0, 9.0, 9.0, 10.0, 10.0, 11.0, 11.0, 12.0, 12.0]
    (tmp_path / "replay.npz").write_bytes(b"no zip")
    with pytest.raises(CheckpointError, match="does not hold a replay buffer"):
        same.read(tmp_path / "replay.npz")


def test_a_stop_ends_gradient_steps_at_the_next_minibatch() -> None:
    """Nothing is sampled once a stop was asked."""
    asked = False
    buffer = buffer_of(10)
    Replay(buffer, lambda: asked)
    fill(buffer, range(5))
    assert len(buffer.sample(2).rewards) == 2
    asked = True
    with pytest.raises(StopAskedError):
        buffer.sample(2)
