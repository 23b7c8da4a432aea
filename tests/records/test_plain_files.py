"""Opening below a runs root: plain files of ours alone, by no link, and never waiting."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from mission_tui.plain_files import (
    make_folder,
    names_in,
    open_fresh,
    open_plain,
    open_to_append,
    open_to_lock,
    read_given,
    read_plain,
    remove_tree,
)
from mission_tui.records.atomic import StorageError, write_json
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.trash import tree_bytes
from tests.records.journal import paused

RUN = "20261121-104207-demo-3f9a"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory with one attempt, beside a folder that is none of its business."""
    folder = tmp_path / "runs" / RUN / "attempts" / "1"
    folder.mkdir(parents=True)
    (folder / "exit.json").write_bytes(b"{}")
    outside = tmp_path / "home"
    outside.mkdir()
    (outside / "exit.json").write_bytes(b"mine")
    return tmp_path / "runs" / RUN


def refused(path: Path) -> str:
    """Why nobody reads `path`."""
    with pytest.raises(OSError, match=r".") as why:
        os.close(open_plain(path)[0])
    return str(why.value.strerror)


def test_a_plain_file_is_read(run: Path) -> None:
    """What is what it should be is opened, and read up to its cap."""
    assert read_plain(run / "attempts" / "1" / "exit.json", 2) == b"{}"
    with pytest.raises(OSError, match="at most 1 are read"):
        read_plain(run / "attempts" / "1" / "exit.json", 1)


def test_no_link_is_followed_on_the_way_below_a_run(run: Path) -> None:
    """Neither the file nor any folder between it and the run directory may be a link; above it they may."""
    attempt = run / "attempts" / "1"
    (attempt / "exit.json").unlink()
    (attempt / "exit.json").symlink_to(run.parents[1] / "home" / "exit.json")
    assert "symbolic link" in refused(attempt / "exit.json")
    (attempt / "exit.json").unlink()
    attempt.rmdir()
    attempt.symlink_to(run.parents[1] / "home")
    assert refused(attempt / "exit.json")
    with pytest.raises(StorageError):
        write_json(attempt / "exit.json", {})
    with pytest.raises(OSError, match=r"."):
        names_in(attempt)
    for folder in (attempt, attempt / "code", attempt / "code" / "deep"):
        with pytest.raises(OSError, match=r"."):
            make_folder(folder)
    assert [path.read_bytes() for path in (run.parents[1] / "home").iterdir()] == [b"mine"]
    make_folder(run / "attempts" / "2" / "code")
    assert (run / "attempts" / "2" / "code").stat().st_mode & 0o777 == 0o700
    (run.parents[1] / "seen").symlink_to(run.parent)
    (run / "events.jsonl").write_bytes(b"x")
    assert read_plain(run.parents[1] / "seen" / RUN / "events.jsonl", 9) == b"x"


def test_what_is_no_plain_file_is_refused_at_once(run: Path) -> None:
    """A pipe, a socket, a folder, a device: nobody waits for any of them."""
    os.mkfifo(run / "pipe")
    (run / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as made:
        here = os.open(run, os.O_PATH)
        made.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    for name in ("pipe", "folder", "socket"):
        assert refused(run / name) == "not a regular file"
        with pytest.raises(OSError, match=r"."):
            open_to_append(run / name)
    with pytest.raises(OSError, match="not a regular file"):
        read_given(run.parents[1] / "home" / ".." / "runs" / RUN / "pipe", 9)


def test_a_file_of_holes_is_refused(run: Path) -> None:
    """It costs nothing to make one of terabytes, and hours to read it."""
    with (run / "events.jsonl").open("wb") as file:
        file.truncate(3 << 40)
        file.seek(1 << 40)
        file.write(b"x" * 5000)
    assert "nearly all of them are holes" in refused(run / "events.jsonl")


def test_nothing_is_written_through_a_second_name(run: Path) -> None:
    """A hard link is refused where the file is kept, and parted from where its bytes count; the other stays."""
    kept = run.parents[1] / "home" / "exit.json"
    os.link(kept, run / "lock")
    with pytest.raises(OSError, match="second name"):
        open_to_lock(run / "lock")
    os.close(open_fresh(run / "lock"))
    assert (run / "lock").stat().st_size == 0
    os.link(kept, run / "events.jsonl")
    log = AppendLog(run / "events.jsonl")
    log.append(paused)
    log.close()
    assert kept.read_bytes() == b"mine"
    assert kept.stat().st_nlink == 1


def test_a_umask_of_777_closes_nothing_to_us(tmp_path: Path) -> None:
    """Whatever the shell's umask takes away: what we make, we and our other processes can open again."""
    before = os.umask(0o777)
    try:
        make_folder(tmp_path / "runs" / ".supervisor")
        os.close(open_fresh(tmp_path / "runs" / "fresh"))
        os.close(open_to_append(tmp_path / "runs" / "log"))
        os.close(open_to_lock(tmp_path / "runs" / "lock"))
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"runs": 0o700, ".supervisor": 0o700, "fresh": 0o600, "log": 0o600, "lock": 0o600}


@pytest.mark.skipif(os.getuid() != 0, reason="only a superuser can give a file away")
def test_what_somebody_else_owns_is_not_written(run: Path) -> None:
    """A superuser reads it, as in a container, and others do not even do that in a folder that is theirs."""
    file = run / "events.jsonl"
    file.write_bytes(b"x")
    os.chown(file, 65534, 65534)
    assert read_plain(file, 9) == b"x"
    file.chmod(0o644)
    run.parents[1].chmod(0o755)
    child = os.fork()
    if not child:
        os.setuid(65533)
        try:
            open_plain(file)
        except PermissionError:
            os._exit(7)
        finally:
            os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def deep(folder: Path, levels: int = 3000) -> None:
    """Folders within folders, more than a name can say."""
    folder.mkdir(parents=True)
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("a", dir_fd=descriptor)
        inner = os.open("a", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)


def test_a_tree_is_removed_however_deep_it_is(run: Path, tmp_path: Path) -> None:
    """Neither its depth nor its links lead anywhere: what they point to stays."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("mine")
    deep(run / "junk" / "deep")
    (run / "junk" / "link").symlink_to(outside)
    os.mkfifo(run / "junk" / "pipe")
    assert tree_bytes(run) >= 0
    remove_tree(run / "junk")
    assert not (run / "junk").exists()
    assert (outside / "kept").read_text() == "mine"
    (run / "link").symlink_to(outside)
    with pytest.raises(OSError, match="link"):
        remove_tree(run / "link")
    assert (outside / "kept").exists()
