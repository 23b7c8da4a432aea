"""Named shared memory that environments make is written down with its inode, so that it can be removed after them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAKE = """
import os
from multiprocessing import shared_memory
from mission_tui.envs.channel import record_shared_names
for _ in range(2):
    record_shared_names(os.environ)
first = shared_memory.SharedMemory(create=True, size=64)
again = shared_memory.SharedMemory(first.name)
if os.fork() == 0:
    forked = shared_memory.SharedMemory(create=True, size=64)
    print(forked.name, os.fstat(forked._fd).st_ino, flush=True)
    forked.unlink()
    os._exit(0)
os.wait()
print(first.name, os.fstat(first._fd).st_ino, flush=True)
first.unlink()
"""


def made(folder: Path, **marks: str) -> list[str]:
    """`INODE NAME` of what a process made that recorded for the run in `folder`."""
    (folder / "attempts" / "1").mkdir(parents=True, exist_ok=True)
    environ = os.environ | {"PYTHONPATH": str(ROOT)} | marks
    done = subprocess.run([sys.executable, "-c", MAKE], env=environ, capture_output=True, text=True, check=True)
    return [" ".join(reversed(line.split())) for line in done.stdout.splitlines()]


def test_what_is_made_is_written_down_once(tmp_path: Path) -> None:
    """Made here and in a fork: recorded with inode. Opened again: not. Asked to record twice: recorded once."""
    said = made(tmp_path, MISSION_TUI_RUN_DIR=str(tmp_path), MISSION_TUI_ATTEMPT="1")
    assert len(said) == 2
    assert sorted((tmp_path / "attempts" / "1" / "shared-memory").read_text().splitlines()) == sorted(said)


def test_without_a_run_or_with_a_refusing_disk_memory_is_made_all_the_same(tmp_path: Path) -> None:
    """An environment never fails because of the record."""
    assert len(made(tmp_path)) == 2
    nowhere = {"MISSION_TUI_RUN_DIR": str(tmp_path / "gone"), "MISSION_TUI_ATTEMPT": "1"}
    assert len(made(tmp_path, **nowhere)) == 2
    assert list((tmp_path / "attempts" / "1").iterdir()) == []
