"""Whole files: the old one or the new one."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from mission_tui.fleet.resume.verdict import Change
from mission_tui.records.atomic import StorageError, storing, write_atomic, write_json
from tests.records.limits import file_size_limit


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """The second content replaces the first under a new inode, and no temporary file stays."""
    path = tmp_path / "latest"
    write_atomic(path, b"one\n")
    with path.open("rb") as old:
        write_atomic(path, b"two\n")
        assert old.read() == b"one\n"
    assert path.read_bytes() == b"two\n"
    assert list(tmp_path.iterdir()) == [path]


def test_the_mode_is_kept_from_the_first_byte(tmp_path: Path) -> None:
    """A file with secrets is readable by its owner only."""
    path = tmp_path / "launch.json"
    write_json(path, {"env": {"TOKEN": "x"}}, mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_disk_without_inodes_is_not_told_to_free_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is asked how many it has left; where it counts none, or has no room either, nothing is said."""
    full, real = OSError(errno.ENOSPC, "No space left on device"), os.statvfs(tmp_path)
    said = []
    for files, names, room in ((400, 0, 9), (400, 50, 9), (0, 0, 9), (400, 0, 0)):
        counted = SimpleNamespace(f_files=files, f_favail=names, f_bavail=room, f_frsize=real.f_frsize)
        monkeypatch.setattr(os, "statvfs", lambda _, it=counted: it)
        with pytest.raises(StorageError) as caught, storing(tmp_path / "not" / "there"):
            raise full
        said.append("no inodes left" in str(caught.value))
    assert said == [True, False, False, False]


def test_a_refused_write_leaves_the_old_file(tmp_path: Path) -> None:
    """A full disk costs the new content only, and the error names the file."""
    path = tmp_path / "state.json"
    write_atomic(path, b"old")
    with file_size_limit(1000), pytest.raises(StorageError, match=r"cannot write .*state\.json") as caught:
        write_atomic(path, b"x" * 5000)
    assert caught.value.errno == errno.EFBIG
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    """Replacing a symbolic link replaces the link, never what it points to."""
    victim, path = tmp_path / "victim", tmp_path / "latest"
    victim.write_bytes(b"precious")
    path.symlink_to(victim)
    write_atomic(path, b"new")
    assert victim.read_bytes() == b"precious"
    assert not path.is_symlink()


def test_json_is_indented_and_reads_back(tmp_path: Path) -> None:
    """A person can read the file, and a struct comes back equal."""
    path = tmp_path / "change.json"
    change = Change("ppo.n_steps", "64", "128", "warn", "the rollout doubles")
    write_json(path, change)
    assert path.read_text(encoding="utf-8").startswith('{\n  "name": "ppo.n_steps",\n')
    assert msgspec.json.decode(path.read_bytes(), type=Change) == change
