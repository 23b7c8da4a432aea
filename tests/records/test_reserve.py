"""Disk space that is kept for the one write that must not fail."""

from __future__ import annotations

import errno
from pathlib import Path

from mission_tui.records.atomic import Reserve, StorageError
from tests.full_disk import fill, small_disk

SIZE = 128 << 10


def test_it_is_held_in_real_blocks_and_given_up_once(tmp_path: Path) -> None:
    """Holding twice is holding; releasing says whether there was something to release."""
    reserve = Reserve(tmp_path / "reserve", SIZE)
    assert not reserve.held
    assert reserve.hold()
    assert reserve.hold()
    assert reserve.path.stat().st_blocks * 512 >= SIZE
    assert reserve.release()
    assert not reserve.release()
    assert not reserve.held


def test_only_a_full_disk_is_a_reason_to_give_it_up(tmp_path: Path) -> None:
    """A read-only or broken disk gains nothing by it."""
    reserve = Reserve(tmp_path / "reserve", SIZE)
    reserve.hold()
    assert not reserve.gives_way_to(StorageError("broken", errno.EIO))
    assert reserve.held
    assert reserve.gives_way_to(StorageError("full", errno.ENOSPC))
    assert not reserve.gives_way_to(StorageError("full", errno.ENOSPC))


def test_it_is_given_up_piece_by_piece(tmp_path: Path) -> None:
    """Each full write takes no more than it may need, until nothing is left."""
    reserve = Reserve(tmp_path / "reserve", SIZE)
    reserve.hold()
    full = StorageError("full", errno.ENOSPC)
    sizes = []
    while reserve.gives_way_to(full, SIZE // 4):
        sizes.append(reserve.path.stat().st_size if reserve.path.exists() else 0)
    assert sizes == [SIZE * 3 // 4, SIZE // 2, SIZE // 4, 0]
    assert not reserve.held


def test_where_there_is_no_folder_there_is_none(tmp_path: Path) -> None:
    """It never raises: room that cannot be kept is only missed later."""
    assert not Reserve(tmp_path / "gone" / "reserve", SIZE).hold()


def test_on_a_nearly_full_disk_it_is_not_taken(tmp_path: Path) -> None:
    """(root) It wants room for twice its size; given up, its space can be written to, and it comes back with room."""
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        reserve = Reserve(disk / "reserve", SIZE)
        assert reserve.hold()
        looks = [(reserve.held, reserve.needed)]
        ballast = fill(disk)
        looks.append((reserve.held, reserve.needed))
        assert looks == [(True, False), (True, True)]
        reserve.release()
        assert not reserve.hold()
        (disk / "event").write_bytes(b"x" * (SIZE // 2))
        ballast.unlink()
        assert reserve.hold()
