"""The keeper removes what shared memory an attempt wrote down, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mission_tui.keeper import files
from mission_tui.keeper.files import remove_shared_memory


def test_only_what_still_is_what_was_recorded_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another inode, a link, a folder, a path with a slash, nonsense: all stay; a second time nothing is left to do."""
    shared, record = tmp_path / "shm", tmp_path / "shared-memory"
    shared.mkdir()
    monkeypatch.setattr(files, "SHARED", shared)
    for name in ("ours", "reused", "outside"):
        (shared / name).write_bytes(b"x")
    (shared / "link").symlink_to(shared / "outside")
    (shared / "folder").mkdir()
    outside = tmp_path / "outside"
    outside.write_bytes(b"x")

    def line(path: Path, name: str, more: int = 0) -> str:
        return f"{path.lstat().st_ino + more} {name}"

    record.write_text(
        "\n".join(
            [
                line(shared / "ours", "ours"),
                line(shared / "reused", "reused", 1),
                line(shared / "link", "link"),
                line(shared / "folder", "folder"),
                line(outside, "../outside"),
                "1 gone",
                "nonsense",
                "",
                "7",
                "7 a\0b",
            ]
        )
    )
    assert remove_shared_memory(record) == ["ours"]
    assert sorted(os.listdir(shared)) == ["folder", "link", "outside", "reused"]  # noqa: PTH208 - names, links too
    assert outside.exists()
    assert remove_shared_memory(record) == []


def test_a_run_that_recorded_nothing_has_nothing_to_remove(tmp_path: Path) -> None:
    """The record is absent for almost every run."""
    assert remove_shared_memory(tmp_path / "shared-memory") == []
