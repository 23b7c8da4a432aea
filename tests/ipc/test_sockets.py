"""The folder and the path of our sockets: ours alone, or not used."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mission_tui.errors import NoSupervisorError
from mission_tui.ipc.sockets import MAX_PATH_BYTES, bind, connect, peer, prepare_socket_dir


def test_folders_are_made_for_us_alone(tmp_path: Path) -> None:
    """Both levels are 0700, whatever the umask, and making them again changes nothing."""
    folder = tmp_path / "user" / "root"
    before = os.umask(0)
    try:
        prepare_socket_dir(folder)
        prepare_socket_dir(folder)
    finally:
        os.umask(before)
    for made in (folder, folder.parent):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_open_doors_are_closed(tmp_path: Path) -> None:
    """A folder of ours that others may enter is closed to them."""
    folder = tmp_path / "user" / "root"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    prepare_socket_dir(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("level", ["user", "user/root"])
def test_symlinks_are_not_followed(tmp_path: Path, level: str) -> None:
    """A symlink in place of a folder is refused by name, even when it points to a folder of ours."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / level).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / level).symlink_to(elsewhere)
    with pytest.raises(NoSupervisorError, match=f"{tmp_path / level} is not a folder"):
        prepare_socket_dir(tmp_path / "user" / "root")
    assert list(elsewhere.iterdir()) == []


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    """What is no folder is refused and left alone."""
    (tmp_path / "user").write_text("mine")
    with pytest.raises(NoSupervisorError, match="is not a folder"):
        prepare_socket_dir(tmp_path / "user" / "root")
    assert (tmp_path / "user").read_text() == "mine"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_someone_else_is_refused(tmp_path: Path) -> None:
    """Someone who made the folder first could read along; so it is not used."""
    folder = tmp_path / "user" / "root"
    folder.mkdir(parents=True)
    os.chown(folder, 65534, 65534)
    with pytest.raises(NoSupervisorError, match="belongs to user 65534"):
        prepare_socket_dir(folder)
    folder.rmdir()
    folder.symlink_to(tmp_path)
    os.chown(folder, 65534, 65534, follow_symlinks=False)
    # Whose it is comes first: in a sticky folder nobody else can remove it.
    with pytest.raises(NoSupervisorError, match="belongs to user 65534, not to you: have it removed"):
        prepare_socket_dir(folder)


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    """What a killed server left behind does not keep the next one out."""
    path = tmp_path / "s"
    bind(path).close()
    with bind(path), connect(path, 1.0) as client:
        assert peer(client) == (os.getpid(), os.getuid())
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600


def test_a_symlink_at_the_path_is_replaced_not_followed(tmp_path: Path) -> None:
    """Binding never writes through a link that was put in place."""
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "s").symlink_to(target)
    with bind(tmp_path / "s"):
        assert target.read_text() == "mine"
        assert not (tmp_path / "s").is_symlink()


def test_too_long_a_path_is_said(tmp_path: Path) -> None:
    """The kernel's limit is named instead of its error number."""
    with pytest.raises(NoSupervisorError, match=f"at most {MAX_PATH_BYTES} bytes"):
        bind(tmp_path / ("x" * MAX_PATH_BYTES))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can listen as somebody else")
def test_a_server_of_another_user_is_not_trusted(tmp_path: Path) -> None:
    """A client looks at who listens before it says a word."""
    path = tmp_path / "s"
    program = (
        "import os, socket, sys; listener = socket.socket(socket.AF_UNIX); listener.bind(sys.argv[1]);"
        "os.setuid(65534); listener.listen(); print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-c", program, os.fspath(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == b"ready\n"
        with pytest.raises(PermissionError, match="served by another user"):
            connect(path, 1.0)
        stranger.communicate()
