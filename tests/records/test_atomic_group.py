"""Files that appear together: whole, and nothing at all of them where the writer is killed before."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from mission_tui.records.atomic import StorageError, write_atomic_group

CONTENTS = {"report.md": b"# words\n" * 4000, "report.json": b"{}", "curves.csv": b"a,b\n" * 10}
OPERATIONS = ("open", "os.mkdir", "os.link", "os.rename", "os.remove")


def written(folder: Path) -> dict[str, bytes]:
    """What `folder` holds."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def killed_at(operation: int, folder: Path) -> bool:
    """Whether a process that writes is killed at its so many-th file operation; else it has finished."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    seen = 0

    def count(event: str, _: tuple[object, ...]) -> None:
        nonlocal seen
        seen += event in OPERATIONS
        if seen == operation and event in OPERATIONS:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.addaudithook(count)
        write_atomic_group(folder, CONTENTS)
    finally:
        os._exit(0)


@pytest.mark.slow
@pytest.mark.parametrize("there", [False, True])
def test_a_killed_writer_leaves_no_half_file(tmp_path: Path, there: bool) -> None:
    """At every file operation: what is found is a file as it was or as it is now, under its own name alone."""
    operation, killed = 0, True
    while killed:
        operation += 1
        folder = tmp_path / str(operation) / "a" / "report"
        old = dict.fromkeys(CONTENTS, b"old") if there else {}
        if there:
            write_atomic_group(folder, old)
        killed = killed_at(operation, folder)
        found = written(folder) if folder.is_dir() else {}
        named = {name: content for name, content in found.items() if not name.startswith(".")}
        assert all(content in (CONTENTS[name], old.get(name)) for name, content in named.items())
        hidden = [content for name, content in found.items() if name.startswith(".")]
        # Between link and rename the file has two names; it is whole even then.
        assert hidden in ([], *([content] for content in CONTENTS.values() if there))
        assert bool(found) == folder.is_dir() or not there
    assert found == CONTENTS
    assert operation > 2 * len(CONTENTS)


def test_before_the_first_name_there_is_not_even_a_folder(tmp_path: Path) -> None:
    """Killed while the last of three files is made ready: nothing was there, and nothing is."""
    assert killed_at(3, tmp_path / "report")
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_nameless_files_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is then written beside its name and renamed."""
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY | os.O_RDWR)
    write_atomic_group(tmp_path / "report", CONTENTS)
    assert written(tmp_path / "report") == CONTENTS


def test_what_cannot_be_written_is_said_by_its_folder(tmp_path: Path) -> None:
    """A file stands where the folder should; one alone, such as a film, is said by its own name."""
    folder = tmp_path / "report"
    folder.write_bytes(b"")
    with pytest.raises(StorageError, match=f"cannot write {folder}:"):
        write_atomic_group(folder, CONTENTS)
    with pytest.raises(StorageError, match=f"cannot write {folder}/film.gif:"):
        write_atomic_group(folder, {"film.gif": b""})
