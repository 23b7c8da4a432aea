"""The ledger of reservations: who counts in it, who does not, and what happens when it cannot be used."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from mission_tui.fleet.capacity.demand import Claim, Reservations, Reserved
from mission_tui.procfs import boot_id, read_stat
from mission_tui.supervisor.host.ledger import LOCK, MOST_BYTES, PREFIX, Ledger, ledger_folder
from tests.full_disk import fill, small_disk
from tests.other_user import NOBODY, as_nobody, needs_another_user, shared_folder
from tests.waiting import until

REPOSITORY = Path(__file__).resolve().parents[3]
CLAIMS = (Claim(cores=2, ram_bytes=1 << 30),)

RESERVES = """
import sys, time
from pathlib import Path
from mission_tui.fleet.capacity.demand import Claim
from mission_tui.supervisor.host import ledger as room
room.LOCK_S = 20.0
ledger = room.Ledger(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
lock = ledger.enter()
taken = sum(claim.cores for each in ledger.read(locked=lock is not None) for claim in each.claims)
time.sleep(0.1)
if taken < int(sys.argv[2]):
    ledger.write((Claim(cores=1),))
ledger.leave(lock)
print("saw", taken, ledger.note, flush=True)
sys.stdin.read()
"""

DIES = """
import os, signal, sys
from pathlib import Path
from mission_tui.fleet.capacity.demand import Claim
from mission_tui.supervisor.host.ledger import Ledger
ledger, left = Ledger(Path(sys.argv[1])), int(sys.argv[2])
def dying(call):
    def act(*words, **more):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*words, **more)
    return act
lock = ledger.enter()
for name in ("open", "fchmod", "write", "close", "fstat"):
    setattr(os, name, dying(getattr(os, name)))
Path.replace, Path.unlink = dying(Path.replace), dying(Path.unlink)
ledger.write((Claim(cores=1),))
ledger.write((Claim(cores=2),))
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """The ledger of a supervisor beside others."""
    with closing(Ledger(tmp_path)) as made:
        yield made


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a process with a script and the folder; none is left."""
    with ExitStack() as ending:

        def started(
            script: str, *words: str, python: Sequence[str] = (sys.executable,), folder: Path = tmp_path
        ) -> subprocess.Popen[str]:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
            argv = [*python, "-c", script, str(folder), *words]
            child = subprocess.Popen(argv, cwd="/", env=environ, text=True, **pipes)
            ending.callback(child.communicate)
            ending.callback(child.kill)
            return child

        yield started


def reserve(*children: subprocess.Popen[str]) -> list[str]:
    """Let all of them reserve at once; what each saw of the others before it did."""
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    return [child.stdout.readline() for child in children if child.stdout is not None]


def record(**more: Any) -> bytes:
    """What a living supervisor of ours would have written: by default this process."""
    own = read_stat(os.getpid())
    assert own is not None
    facts = Reservations(boot_id=boot_id(), pid=own.pid, start_time=own.start_time, claims=CLAIMS)
    return msgspec.json.encode(structs.replace(facts, **more))


def counted(ledger: Ledger) -> list[Claim]:
    """All claims that count, of whomever."""
    return [claim for each in ledger.read(locked=False) for claim in each.claims]


def names(folder: Path) -> list[str]:
    """Files of claims in the folder."""
    return sorted(path.name for path in folder.glob(f"{PREFIX}*"))


def test_what_one_reserves_the_others_read_until_it_leaves(ledger: Ledger, tmp_path: Path) -> None:
    """It does not read its own; an unchanged claim is not written again; a removed file is."""
    with closing(Ledger(tmp_path)) as other:
        other.write(CLAIMS)
        (name,) = names(tmp_path)
        written = (tmp_path / name).stat()
        assert stat.S_IMODE(written.st_mode) == 0o644
        other.write(CLAIMS)
        assert (tmp_path / name).stat() == written
        assert [(each.trusted, each.claims) for each in ledger.read(locked=False)] == [(True, CLAIMS)]
        assert other.read(locked=False) == ()
        (tmp_path / name).unlink()
        other.write(CLAIMS)
        assert counted(ledger) == list(CLAIMS)
        other.write(())
        assert names(tmp_path) == []
        other.write(CLAIMS)
        assert counted(ledger) == list(CLAIMS)
    assert names(tmp_path) == []


def test_of_many_that_reserve_at_once_no_more_do_than_may(
    ledger: Ledger, tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """Reading all and writing one's own is one step: of four that each see whether two are left, two get one."""
    said = reserve(*(start(RESERVES, "2") for _ in range(4)))
    assert sorted(said) == ["saw 0 \n", "saw 1 \n", "saw 2 \n", "saw 2 \n"]
    assert len(counted(ledger)) == 2


def test_the_dead_do_not_count_and_are_swept(ledger: Ledger, start: Callable[..., subprocess.Popen[str]]) -> None:
    """A killed supervisor's claims vanish with it; the file goes with the next turn under the lock."""
    child = start(RESERVES, "1")
    reserve(child)
    assert counted(ledger) == [Claim(cores=1)]
    child.kill()
    child.wait()
    assert counted(ledger) == []
    folder = Path(child.args[3])  # type: ignore[index, arg-type]
    assert len(names(folder)) == 1
    lock = ledger.enter()
    ledger.read(locked=True)
    ledger.leave(lock)
    assert names(folder) == []


@pytest.mark.parametrize(
    "more", [{"boot_id": "another"}, {"start_time": 1}, {"pid": 1 << 30}], ids=["boot", "start", "pid"]
)
def test_another_process_of_that_number_does_not_count(ledger: Ledger, tmp_path: Path, more: dict[str, Any]) -> None:
    """Numbers of processes come back: boot and start time tell who was meant."""
    path = tmp_path / f"{PREFIX}{os.getuid()}-x"
    path.write_bytes(record())
    assert counted(ledger) == list(CLAIMS)
    path.write_bytes(record(**more))
    assert counted(ledger) == []


def test_a_process_counts_once_however_many_files_name_it(ledger: Ledger, tmp_path: Path) -> None:
    """One that leaves files behind, or writes many, has what the last of them says."""
    for at, cores in enumerate((4, 3, 2)):
        path = tmp_path / f"{PREFIX}{os.getuid()}-{at}"
        path.write_bytes(record(claims=(Claim(cores=cores),)))
        os.utime(path, (1e9 + (at == 1), 1e9 + (at == 1)))
    assert counted(ledger) == [Claim(cores=3)]


def a_link(path: Path) -> None:
    (path.parent / "target").write_bytes(record())
    path.symlink_to("target")


def a_second_name(path: Path) -> None:
    (path.parent / "target").write_bytes(record())
    path.hardlink_to(path.parent / "target")


def nonsense(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


@pytest.mark.parametrize(
    "make",
    [
        a_link,
        a_second_name,
        os.mkfifo,
        Path.mkdir,
        nonsense(b""),
        nonsense(b"[" * 50_000),
        nonsense(record()[:-9]),
        nonsense(record() + b" " * MOST_BYTES),
        nonsense(record().replace(b'"cores":2', b'"cores":-2')),
        nonsense(record().replace(b"1073741824", b"1e400")),
        nonsense(record(claims=(Claim(),) * 513)),
    ],
    ids=["link", "second-name", "pipe", "folder", "empty", "deep", "torn", "huge", "negative", "inf", "many"],
)
def test_what_is_no_record_is_passed_over_at_once(
    ledger: Ledger, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    """Whatever lies there under such a name: no claim, no error, no wait, and nobody's file is touched."""
    path = tmp_path / f"{PREFIX}{os.getuid()}-x"
    make(path)
    lock = ledger.enter()
    assert lock is not None
    assert ledger.read(locked=True) == ()
    ledger.leave(lock)
    assert path.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: gives a file to another user")
def test_nobody_reserves_in_the_name_of_another(ledger: Ledger, tmp_path: Path) -> None:
    """A file of somebody else that names a living process of ours counts for nothing, and stays his."""
    path = tmp_path / f"{PREFIX}65534-x"
    path.write_bytes(record())
    os.chown(path, 65534, 65534)
    lock = ledger.enter()
    assert ledger.read(locked=True) == ()
    ledger.leave(lock)
    assert path.exists()


@needs_another_user
def test_another_user_counts_and_is_not_trusted(start: Callable[..., subprocess.Popen[str]]) -> None:
    """Claims of others are read under their name; the two share the lock and cannot touch each other's files."""
    with shared_folder() as folder, closing(Ledger(folder)) as ledger:
        folder.chmod(0o1777)
        ledger.leave(ledger.enter())
        ledger.write(CLAIMS)
        assert reserve(start(RESERVES, "9", python=as_nobody(), folder=folder)) == ["saw 2 \n"]
        assert ledger.read(locked=True) == (Reserved("nobody", False, (Claim(cores=1),)),)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives files to another user")
@pytest.mark.parametrize("named_for", [0, NOBODY])
def test_files_of_another_user_hide_nobody_elses_and_are_said(ledger: Ledger, tmp_path: Path, named_for: int) -> None:
    """(root) Three hundred, under their name or under ours: what we reserved is read all the same."""
    with subprocess.Popen(["sleep", "60"]) as mine:
        try:
            process = read_stat(mine.pid)
            assert process is not None
            for number in range(300):
                junk = tmp_path / f"{PREFIX}{named_for}-{number:016x}"
                junk.write_text("junk")
                os.chown(junk, NOBODY, NOBODY)
            said = Reservations(boot_id=boot_id(), pid=mine.pid, start_time=process.start_time, claims=CLAIMS)
            (tmp_path / f"{PREFIX}0-{'f' * 16}").write_bytes(msgspec.json.encode(said))
            lock = ledger.enter()
            assert [each.claims for each in ledger.read(locked=True)] == [CLAIMS]
            ledger.leave(lock)
            assert ("301 files of reservations, 300 of them by nobody" in ledger.note) == (named_for == NOBODY)
        finally:
            mine.kill()


def test_a_lock_that_somebody_keeps_is_not_waited_for(ledger: Ledger, tmp_path: Path) -> None:
    """After half a second it goes on without, and says so; what it writes and reads is there all the same."""
    ledger.leave(ledger.enter())
    with (tmp_path / LOCK).open("rb") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        begun = time.monotonic()
        assert ledger.enter() is None
        assert time.monotonic() - begun > 0.4
        assert "has held" in ledger.note
        ledger.write(CLAIMS)
        with closing(Ledger(tmp_path)) as other:
            assert counted(other) == list(CLAIMS)
    lock = ledger.enter()
    assert lock is not None
    assert ledger.note == ""
    ledger.leave(lock)


@pytest.mark.parametrize(
    "make", [lambda path: path.symlink_to("x"), os.mkfifo, Path.mkdir], ids=["link", "pipe", "folder"]
)
def test_a_lock_that_is_none_is_named(ledger: Ledger, tmp_path: Path, make: Callable[[Path], object]) -> None:
    """Nothing is followed, opened for ever or locked that is no plain file."""
    make(tmp_path / LOCK)
    assert ledger.enter() is None
    assert LOCK in ledger.note
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_in_which_others_may_remove_files_is_not_used(tmp_path: Path, mode: int) -> None:
    """Without the sticky bit anybody could take back what another has reserved."""
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    ledger = Ledger(folder)
    assert ledger.enter() is None
    assert "others may remove files there" in ledger.note
    folder.chmod(mode | stat.S_ISVTX)
    ledger.leave(ledger.enter())
    assert ledger.note == ""


def test_a_missing_folder_and_off_are_said(tmp_path: Path) -> None:
    """Neither is made; `off` is a choice."""
    absent = Ledger(tmp_path / "absent")
    assert absent.enter() is None
    assert "absent cannot be used: No such file or directory" in absent.note
    assert ledger_folder({"MISSION_TUI_LEDGER": "off"}) is None
    alone = Ledger(None)
    alone.write(CLAIMS)
    assert (alone.enter(), alone.read(locked=False), alone.note) == (None, (), "MISSION_TUI_LEDGER is off")


def test_a_full_folder_is_said_and_taken_up_again(tmp_path: Path) -> None:
    """What does not fit is not half there; with room it is written by the next turn."""
    with small_disk(tmp_path / "shm", 1 << 20) as disk, closing(Ledger(disk)) as ledger, closing(Ledger(disk)) as other:
        lock = ledger.enter()
        ballast = fill(disk)
        ledger.write(CLAIMS)
        ledger.leave(lock)
        assert "cannot be written: No space left" in ledger.note
        assert names(disk) == []
        ballast.unlink()
        ledger.leave(ledger.enter())
        ledger.write(CLAIMS)
        assert ledger.note == ""
        assert counted(other) == list(CLAIMS)


def test_a_kill_at_any_point_of_writing_leaves_nothing_that_counts(
    ledger: Ledger, tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """Before, between and after each call of two writes; the lock is free again, and later turns sweep what is left."""
    children = [start(DIES, str(calls)) for calls in range(16)]
    codes = [until(child.wait, 30) if child.wait(30) else 0 for child in children]
    assert codes.count(-9) >= 12
    assert codes[-1] == 0
    assert counted(ledger) == []
    for path in tmp_path.glob(f"{PREFIX}*"):
        os.utime(path, (1e9, 1e9))
    lock = ledger.enter()
    assert lock is not None
    ledger.read(locked=True)
    ledger.leave(lock)
    assert names(tmp_path) == []
