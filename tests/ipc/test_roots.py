"""Socket folders as the place where live runs roots of this user are found, whatever else lies there."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mission_tui.fleet.views.snapshot import OtherRoot
from mission_tui.ipc.sockets import OPERATOR_SOCKET, bind, prepare_socket_dir
from mission_tui.ipc.start import live_roots, name_root, named_root, unname_root, write_live_count
from mission_tui.paths import socket_dir


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A runs root with its socket folder, in which nobody listens yet."""
    made = tmp_path / "runs"
    made.mkdir()
    prepare_socket_dir(socket_dir(made))
    yield made
    shutil.rmtree(socket_dir(made), ignore_errors=True)


@pytest.fixture
def served(root: Path) -> Iterator[socket.socket]:
    """Somebody listens at the operator socket of `root`."""
    with closing(bind(socket_dir(root) / OPERATOR_SOCKET)) as listener:
        yield listener


def seen(root: Path) -> list[OtherRoot]:
    """What is said of `root`: other tests may have roots of their own."""
    return [other for other in live_roots() if other.root == str(root)]


def test_a_root_with_a_listener_is_named_with_its_runs(root: Path, served: socket.socket) -> None:
    """Its count is not known before it is told; who asks for the others is not told of itself."""
    name_root(root)
    assert seen(root) == [OtherRoot(str(root), None)]
    write_live_count(root, 3)
    assert seen(root) == [OtherRoot(str(root), 3)]
    assert all(other.root != str(root) for other in live_roots(root))


def test_a_dead_socket_is_not_named(root: Path, served: socket.socket) -> None:
    """A supervisor that was killed leaves its socket and its records; nobody listens there."""
    name_root(root)
    write_live_count(root, 3)
    served.close()
    assert seen(root) == []


def test_a_record_that_names_another_root_counts_for_nothing(root: Path, served: socket.socket, tmp_path: Path) -> None:
    """A folder is found by the root's name: what does not fit it was not written by its supervisor."""
    other = tmp_path / "other"
    other.mkdir()
    (socket_dir(root) / "root").write_bytes(os.fsencode(other))
    assert seen(root) == seen(other) == []


@pytest.mark.parametrize("content", [b"", b"runs", b"/a\0b", b"/" + b"x" * 5000])
def test_an_unreadable_record_names_nothing(root: Path, content: bytes) -> None:
    """Empty, relative, with a zero byte, or longer than any path."""
    (socket_dir(root) / "root").write_bytes(content)
    assert named_root(socket_dir(root)) is None


def test_a_link_in_place_of_a_record_is_not_followed(root: Path, tmp_path: Path) -> None:
    """Neither when it is read nor when it is written."""
    target = tmp_path / "target"
    target.write_bytes(os.fsencode(root))
    record = socket_dir(root) / "root"
    record.symlink_to(target)
    assert named_root(socket_dir(root)) is None
    name_root(root)
    assert not record.is_symlink()
    assert (record.stat().st_mode & 0o777, target.stat().st_nlink) == (0o600, 1)


def test_a_folder_that_is_open_to_others_is_passed_over(root: Path, served: socket.socket) -> None:
    """Whoever may enter it may have put the record there."""
    name_root(root)
    socket_dir(root).chmod(0o755)
    assert seen(root) == []


def test_nothing_is_written_through_a_link_in_place_of_the_folder(root: Path, tmp_path: Path) -> None:
    """Whoever put it there would have our records where they like."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    socket_dir(root).rmdir()
    socket_dir(root).symlink_to(elsewhere)
    with pytest.raises(OSError, match="not a folder of ours alone"):
        write_live_count(root, 1)
    assert list(elsewhere.iterdir()) == []
    socket_dir(root).unlink()


def test_leaving_takes_the_records_along(root: Path) -> None:
    """A folder in which nothing else lies goes with them."""
    name_root(root)
    write_live_count(root, 0)
    unname_root(root)
    assert not socket_dir(root).exists()
