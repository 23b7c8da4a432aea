"""The trash: what is thrown away stays whole, comes back by its name, and is purged only as a whole."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mission_tui.errors import UsageError
from mission_tui.records.atomic import StorageError
from mission_tui.records.runs.layout import RunDir, run_dirs, supervisor_dir
from mission_tui.records.runs.trash import move_to_trash, purge, restore_from_trash, trash_dir, trashed, tree_bytes
from tests.faults.scenes import RECORDED
from tests.full_disk import small_disk


def made(root: Path) -> RunDir:
    """A recorded run below `root`."""
    supervisor_dir(root).mkdir(parents=True)
    shutil.copytree(RECORDED, root / RECORDED.name)
    return RunDir(root / RECORDED.name)


def test_a_run_goes_to_the_trash_whole_and_comes_back(tmp_path: Path) -> None:
    """Nobody takes it for a run while it lies there; its bytes are the same afterwards."""
    run = made(tmp_path)
    size = tree_bytes(run.path)
    item = move_to_trash(tmp_path, run)
    assert (list(run_dirs(tmp_path)), trashed(tmp_path)) == ([], [item])
    assert tree_bytes(item.path) == size > 0
    assert restore_from_trash(tmp_path, item) == run.path
    assert [found.id for found in run_dirs(tmp_path)] == [run.id]
    assert tree_bytes(run.path) == size


def test_a_checkpoint_comes_back_to_its_run(tmp_path: Path) -> None:
    """Its name in the trash says of which run and which checkpoint it is."""
    run = made(tmp_path)
    name = next(path.name for path in sorted(run.checkpoints.iterdir()) if path.is_dir())
    move_to_trash(tmp_path, run, name)
    (item,) = trashed(tmp_path)
    assert (item.run, item.checkpoint) == (run.id, name)
    restore_from_trash(tmp_path, item)
    assert (run.checkpoints / name / "manifest.json").is_file()


def test_nothing_is_put_back_through_a_link(tmp_path: Path) -> None:
    """A run from elsewhere may say that its checkpoints lie in any folder of ours: what it threw away stays."""
    run, elsewhere = made(tmp_path / "runs"), tmp_path / "site-packages"
    elsewhere.mkdir()
    name = next(path.name for path in sorted(run.checkpoints.iterdir()) if path.is_dir())
    move_to_trash(tmp_path / "runs", run, name)
    (item,) = trashed(tmp_path / "runs")
    shutil.rmtree(run.checkpoints)
    run.checkpoints.symlink_to(elsewhere)
    with pytest.raises(StorageError, match="no folder stands there"):
        restore_from_trash(tmp_path / "runs", item)
    assert (list(elsewhere.iterdir()), item.path.is_dir()) == ([], True)


def test_a_taken_place_is_not_overwritten(tmp_path: Path) -> None:
    """A run that bears the name already keeps it, and the other stays in the trash."""
    run = made(tmp_path)
    item = move_to_trash(tmp_path, run)
    run.path.mkdir()
    with pytest.raises(UsageError, match="of that name is already there"):
        restore_from_trash(tmp_path, item)
    assert trashed(tmp_path) == [item]


def test_purging_leaves_strangers_alone(tmp_path: Path) -> None:
    """Only what is named like something thrown away is ever purged; a link in place of the trash is not followed."""
    run = made(tmp_path)
    item = move_to_trash(tmp_path, run)
    (trash_dir(tmp_path) / "notes").mkdir()
    (trash_dir(tmp_path) / f"{int(item.t)}.{run.id}@..").mkdir()
    assert trashed(tmp_path) == [item]
    purge(tmp_path, item)
    assert sorted(path.name for path in trash_dir(tmp_path).iterdir()) == [f"{int(item.t)}.{run.id}@..", "notes"]
    assert list(supervisor_dir(tmp_path).iterdir()) == []
    trash_dir(tmp_path).rename(tmp_path / "elsewhere")
    trash_dir(tmp_path).symlink_to(tmp_path / "elsewhere")
    assert trashed(tmp_path) == []


def test_a_trash_that_cannot_be_listed_is_our_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor's clock, which looks at it now and then, hears of storage and not of a bare OSError."""
    trash_dir(tmp_path).mkdir()

    def refuse(_: Path) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr("mission_tui.records.runs.trash.names_in", refuse)
        with pytest.raises(StorageError, match=r"cannot list .*Too many open files"):
            trashed(tmp_path)


def test_what_an_overlay_cannot_move_says_what_to_do(tmp_path: Path) -> None:
    """(root) A run on a lower layer, as of a container's image, cannot be renamed: it stays whole."""
    lower = tmp_path / "lower"
    made(lower)
    with small_disk(tmp_path / "disk", 8 << 20) as disk:
        for name in ("upper", "work", "merged"):
            (disk / name).mkdir()
        layers = f"lowerdir={lower},upperdir={disk}/upper,workdir={disk}/work,redirect_dir=off"
        mount = ["mount", "-t", "overlay", "overlay", "-o", layers, str(disk / "merged")]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("no overlay file system here")
        try:
            run = RunDir(disk / "merged" / RECORDED.name)
            with pytest.raises(StorageError, match=r"lower layer of an overlay .*`rm -r`"):
                move_to_trash(disk / "merged", run)
            assert tree_bytes(run.path) == tree_bytes(lower / RECORDED.name)
            assert trashed(disk / "merged") == []
        finally:
            subprocess.run(["umount", str(disk / "merged")], check=True)
