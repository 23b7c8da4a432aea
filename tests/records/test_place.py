"""The place of a directory: the same one always has it, and no other does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from mission_tui.records.runs.attempt import RecordedInode, place_of, same_place


def test_a_directory_keeps_its_place_when_it_is_renamed(tmp_path: Path) -> None:
    """A runs root may be moved within its file system: what lies in it is what it was."""
    run = tmp_path / "run"
    run.mkdir()
    before = place_of(run)
    assert same_place(before, place_of(run.rename(tmp_path / "moved")))


def test_a_copy_has_another_place(tmp_path: Path) -> None:
    """Whatever a copy says of itself, it is another directory."""
    run = tmp_path / "run"
    run.mkdir()
    copied = Path(shutil.copytree(run, tmp_path / "copy", symlinks=True))
    assert not same_place(place_of(run), place_of(copied))


def test_a_number_that_was_given_away_again_is_told_by_its_generation() -> None:
    """A directory made after another's removal may have its inode number."""
    was = RecordedInode(device=1, inode=7, generation=1, filesystem=5)
    assert not same_place(was, msgspec.structs.replace(was, generation=2))


def test_a_device_may_be_numbered_anew_at_a_boot() -> None:
    """Then the file system's own id counts; an id of 0 says nothing."""
    was = RecordedInode(device=1, inode=7, generation=1, filesystem=5)
    assert same_place(was, msgspec.structs.replace(was, device=2))
    assert not same_place(was, msgspec.structs.replace(was, device=2, filesystem=6))
    nameless = msgspec.structs.replace(was, filesystem=0)
    assert not same_place(nameless, msgspec.structs.replace(nameless, device=2))


def test_a_link_has_no_place_and_a_pipe_blocks_nobody(tmp_path: Path) -> None:
    """Who asks for the place of a directory is never led elsewhere, nor held up."""
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OSError, match="link"):
        place_of(tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    assert place_of(tmp_path / "pipe").inode == (tmp_path / "pipe").stat().st_ino


def test_a_place_is_read_as_it_was_written(tmp_path: Path) -> None:
    """It is part of files: `launch.json` has one."""
    place = place_of(tmp_path)
    assert msgspec.json.decode(msgspec.json.encode(place), type=RecordedInode) == place
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        assert place_of(descriptor) == place
    finally:
        os.close(descriptor)
