"""A small file system of its own, so that a disk can be filled without harming anybody."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["fill", "small_disk"]


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """`folder` as a file system of `size_bytes`; skips the test where that is not allowed."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs root: mounts a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path, leave_bytes: int = 0) -> Path:
    """Write a file until nothing fits any more, then give `leave_bytes` back; the file."""
    ballast = disk / "ballast"
    try:
        with ballast.open("wb", buffering=0) as file:
            # A short write is what a nearly full disk does first; the next one is refused.
            while True:
                file.write(b"\0" * (1 << 20))
    except OSError:
        pass
    with ballast.open("r+b") as file:
        file.truncate(max(0, ballast.stat().st_size - leave_bytes))
    return ballast
