"""Small checkpoints for tests; run as a program, a save that is killed at each of its file operations in turn.

`python -m tests.records.saving FOLDER TIMESTEPS`: for N = 1, 2, ... a fresh folder gets checkpoint 100, then a forked
child saves as attempt 2 at TIMESTEPS and kills itself at its N-th file operation. Prints per N the newest verified
checkpoint and what became of the child, until it survives.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from mission_tui.records.runs.checkpoint import CheckpointFacts, newest_verified, save_checkpoint

FILE_OPERATIONS = frozenset({"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "os.listdir"})


def facts(timesteps: int, attempt: int = 1) -> CheckpointFacts:
    """What a trainer would say at `timesteps`, one update per 100."""
    return CheckpointFacts(
        run="20261121-104207-demo-3f9a",
        attempt=attempt,
        update=timesteps // 100,
        timesteps=timesteps,
        t=1000.0,
        reason="time",
        spec_sha256="0" * 64,
        extra={"exact": True},
    )


def fill_with(content: bytes) -> Callable[[Path], None]:
    """A `fill` that writes two members, distinguishable by `content`."""

    def fill(folder: Path) -> None:
        (folder / "policy.safetensors").write_bytes(content)
        (folder / "counters.json").write_bytes(b"{}")

    return fill


def save(checkpoints: Path, timesteps: int, content: bytes | None = None, attempt: int = 1) -> str:
    """Save a checkpoint taken at `timesteps` and return its name."""
    fill = fill_with(str(timesteps).encode() if content is None else content)
    return save_checkpoint(checkpoints, f"{timesteps:09d}", fill, facts(timesteps, attempt)).name


def die_at(operation: int) -> None:
    """Kill this process at its `operation`-th file operation from now."""
    seen = 0

    def count(event: str, _: tuple[object, ...]) -> None:
        nonlocal seen
        if event not in FILE_OPERATIONS:  # the kill is an event too
            return
        seen += 1
        if seen == operation:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def main() -> None:
    operation, survived = 0, False
    while not survived:
        operation += 1
        checkpoints = Path(sys.argv[1]) / str(operation)
        save(checkpoints, 100)
        child = os.fork()
        if child == 0:
            die_at(operation)
            save(checkpoints, int(sys.argv[2]), attempt=2)
            os._exit(0)
        survived = os.waitpid(child, 0)[1] == 0
        newest = newest_verified(checkpoints)
        assert newest is not None
        print(f"{newest.name} of attempt {newest.attempt}, {'survived' if survived else 'killed'}")
        save(checkpoints, 300, attempt=3)
        assert sorted(path.name for path in checkpoints.glob(".tmp-*")) == []


if __name__ == "__main__":
    main()
