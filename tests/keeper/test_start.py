"""How a keeper starts a trainer: identity, lease, signals, and every way in which starting fails."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from mission_tui.procfs import boot_id
from mission_tui.records.runs.attempt import Seal, place_of, read_exit
from mission_tui.records.runs.layout import RunDir
from tests.keeper.conftest import CHECKOUT, KeptRun, alive
from tests.waiting import until


@pytest.mark.parametrize("own_session", [True, False])
def test_identity_says_who_runs(kept: KeptRun, own_session: bool) -> None:
    """Both processes are told apart for good, and the trainer leads its own group in the keeper's own session."""
    folder = kept.order("ready()\nwait_for_ever()")
    keeper = kept.keep(own_session=own_session)
    until(folder.identity.exists)
    who = kept.identity()
    assert (who.boot_id, who.uid, who.nonce, who.attempt) == (boot_id(), os.getuid(), kept.nonce, 1)
    assert who.keeper.pid == who.session == keeper.pid
    assert os.getpgid(who.trainer.pid) == who.trainer.pid
    assert os.getsid(who.trainer.pid) == keeper.pid
    for process in (who.keeper, who.trainer):
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        assert process.start_time == int(fields[19])
        if process.pidfd_inode is not None:
            descriptor = os.pidfd_open(process.pid)
            assert os.fstat(descriptor).st_ino == process.pidfd_inode
            os.close(descriptor)
    assert not folder.exit.exists()


def test_the_trainer_gets_the_ordered_environment_and_the_lease(kept: KeptRun) -> None:
    """Exactly the environment of the order plus the lease's descriptor, which is the run's lease file."""
    kept.start(
        """
        import json
        lease = os.fstat(int(os.environ["MISSION_TUI_LEASE_FD"]))
        Path("told").write_text(json.dumps([dict(os.environ), os.getcwd(), lease.st_ino]))
        ready()
        """
    )
    kept.ended()
    environ, cwd, inode = json.loads((kept.run.path / "told").read_text())
    assert environ.pop("MISSION_TUI_LEASE_FD").isdigit()
    environ.pop("LC_CTYPE", None)  # the stub's interpreter sets it for itself
    assert environ == {"MISSION_TUI_NONCE": kept.nonce, "PYTHONUNBUFFERED": "1"}
    assert (cwd, inode) == (str(kept.run.path), kept.run.lease.stat().st_ino)


def test_the_trainer_starts_with_default_signals_and_no_input(kept: KeptRun) -> None:
    """Nothing is blocked and only a hang-up ignored, although the keeper does more, and its input ends at once."""
    folder = kept.order(argv=("/bin/sh", "-c", "cat; grep -E 'Sig(Blk|Ign)' /proc/self/status"))
    kept.keep()
    assert kept.ended().code == 0
    _, blocked, _, ignored = folder.output.read_text().split()
    of_the_c_library = 1 << 31 | 1 << 32
    assert (int(blocked, 16), int(ignored, 16) & ~of_the_c_library) == (0, 1 << signal.SIGHUP - 1)


def test_the_lease_is_free_once_the_exit_is_recorded(kept: KeptRun) -> None:
    """Held while the trainer lives, free when the keeper is gone: the next attempt then finds `exit.json`."""
    keeper = kept.start()
    with kept.run.lease.open("rb") as lease:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
        keeper.send_signal(signal.SIGQUIT)
        kept.ended()
        fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_second_attempt_of_a_live_run_is_refused(kept: KeptRun) -> None:
    """The second keeper says who is in the way and exits 75; the first trainer never notices."""
    first = kept.start()
    kept.order(attempt=2)
    kept.keep(2)
    refused = kept.ended(2, code=75)
    assert refused.start_error is not None
    assert "held by another attempt" in refused.start_error
    assert not kept.run.attempt(2).identity.exists()
    assert first.poll() is None
    assert alive(kept.identity().trainer.pid)
    assert not kept.run.attempt(1).exit.exists()


def test_an_attempt_is_started_once(kept: KeptRun) -> None:
    """A keeper for an attempt that already has an identity touches nothing of it and exits 75."""
    kept.start("ready()").wait(10)
    before = {path: path.read_bytes() for path in kept.run.attempt(1).path.iterdir()}
    assert kept.keep().wait(10) == 75
    assert {path: path.read_bytes() for path in kept.run.attempt(1).path.iterdir()} == before


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"argv": ("/nonexistent/python",)}, "cannot start /nonexistent/python: .*No such file"),
        ({"argv": ("/etc/passwd",)}, "cannot start /etc/passwd: .*Permission denied"),
        ({"argv": ()}, "argv is empty"),
        ({"cwd": "/nonexistent"}, "cannot enter the working folder /nonexistent: No such file"),
        ({"env": {"A=B": "x"}}, "cannot start .*environment"),
        ({"env": {"A": "x\0y"}}, "cannot start .*null byte"),
    ],
)
def test_an_order_that_cannot_be_carried_out(kept: KeptRun, changes: dict[str, Any], sentence: str) -> None:
    """The exit record holds a sentence that names what is wrong; nothing was started."""
    folder = kept.order(**changes)
    kept.keep()
    record = kept.ended(code=1)
    assert re.search(sentence, str(record.start_error))
    assert (record.code, record.signal) == (None, None)
    assert not folder.identity.exists()


@pytest.mark.parametrize("raw", [None, b"", b"[1]", b'{"argv": 3}', b"\0\0\0", b'{"argv": ["x"], "cwd": "/"}'])
def test_an_order_that_cannot_be_read(kept: KeptRun, raw: bytes | None) -> None:
    """A missing or damaged `launch.json` is named in the exit record."""
    folder = kept.order()
    folder.launch.unlink()
    if raw is not None:
        folder.launch.write_bytes(raw)
    kept.keep()
    start_error = kept.ended(code=1).start_error
    assert start_error is not None
    assert str(folder.launch) in start_error


def test_the_run_directory_is_filled_in_where_the_order_means_it(kept: KeptRun) -> None:
    """The keeper names the directory that it was given; the order names none."""
    words = ("/bin/sh", "-c", 'echo "$0 $1 $MISSION_TUI_RUN_DIR $MISSION_TUI_REPORT"', ".", "1")
    environ = {"MISSION_TUI_RUN_DIR": ".", "MISSION_TUI_REPORT": "attempts/1/reported.jsonl"}
    folder = kept.order(argv=words, env=environ, run_dir_at=3)
    kept.keep()
    kept.ended()
    here = str(kept.run.path)
    assert folder.output.read_text().split() == [here, "1", here, str(folder.reported)]


def test_an_order_that_was_copied_is_not_carried_out(kept: KeptRun, tmp_path: Path) -> None:
    """`cp -a` of a run that was not begun: the copy's keeper starts nothing and says why, the original is as it was."""
    seal = Seal(run=kept.run.id, place=place_of(kept.run.path), files={}, mac="0" * 64)
    touch = ("/bin/sh", "-c", 'touch "$MISSION_TUI_RUN_DIR/trained"')
    folder = kept.order(argv=touch, env={"MISSION_TUI_RUN_DIR": "."}, seal=seal)
    before = {path: path.read_bytes() for path in folder.path.iterdir()}
    copied = KeptRun.__new__(KeptRun)
    copied.run = RunDir(Path(shutil.copytree(kept.run.path, tmp_path / "copy", symlinks=True)))
    copied.keepers = kept.keepers
    copied.keep()
    assert "written for another directory" in str(copied.ended(code=1).start_error)
    assert not copied.run.attempt(1).identity.exists()
    assert not list(tmp_path.rglob("trained"))
    assert {path: path.read_bytes() for path in folder.path.iterdir()} == before


@pytest.mark.parametrize("named", ["variable", "word"])
def test_an_order_of_before_that_names_another_directory_is_refused(kept: KeptRun, tmp_path: Path, named: str) -> None:
    """Orders once named the run directory instead of saying which one it is."""
    original = tmp_path / "runs" / kept.run.id
    original.mkdir(parents=True)
    touch = ("/bin/sh", "-c", "touch ran", str(original) if named == "word" else "1")
    environ = {"MISSION_TUI_RUN_DIR": str(original)} if named == "variable" else {}
    folder = kept.order(argv=touch, env=environ)
    table = json.loads(folder.launch.read_text())
    del table["seal"], table["run_dir_at"]
    folder.launch.write_text(json.dumps(table))
    kept.keep()
    assert f"its order names {original}" in str(kept.ended(code=1).start_error)
    assert not (kept.run.path / "ran").exists()


def test_an_order_of_before_is_carried_out_in_its_own_directory(kept: KeptRun, tmp_path: Path) -> None:
    """Also where the runs root is reached over a link."""
    (tmp_path / "link").symlink_to(tmp_path)
    here = tmp_path / "link" / kept.run.id
    folder = kept.order(argv=("/bin/sh", "-c", "echo $0", str(here)), env={"MISSION_TUI_RUN_DIR": str(here)})
    table = json.loads(folder.launch.read_text())
    del table["seal"], table["run_dir_at"]
    folder.launch.write_text(json.dumps(table))
    kept.keep()
    assert kept.ended().code == 0
    assert folder.output.read_text() == f"{here}\n"


@pytest.mark.slow
def test_a_missing_attempt_folder_does_not_hang_the_keeper(kept: KeptRun) -> None:
    """With nowhere to write, the keeper gives up within seconds."""
    assert kept.keep(7).wait(10) == 1
    assert read_exit(kept.run.attempt(7).exit) is None


def test_the_keeper_stays_small(kept: KeptRun) -> None:
    """Every live run carries a keeper: under 15 MiB resident, 18 from Python 3.12 on; and none of the heavy modules."""
    keeper = kept.start()
    status = Path(f"/proc/{keeper.pid}/status").read_text()
    resident_kib = int(status.partition("VmRSS:")[2].split()[0])
    assert resident_kib < (15 if sys.version_info < (3, 12) else 18) * 1024
    probe = "import mission_tui.keeper.__main__, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, cwd=CHECKOUT, check=True)
    foreign = {"msgspec", "asyncio", "subprocess", "dataclasses", "numpy", "torch", "psutil", "mission_tui.records"}
    assert not foreign & set(done.stdout.split())


def test_only_the_order_that_was_given_is_carried_out(kept: KeptRun) -> None:
    """A document that was put in its place starts nothing; of the right one the trainer is told what its specs are."""
    folder = kept.order(script='Path("told").write_text(os.environ["MISSION_TUI_SPECS"])', nonce="another")
    right = sha256(folder.launch.read_bytes()).hexdigest()
    kept.keep(1, f"--sealed={'0' * 64}")
    assert "is not the order that was given" in (kept.ended(code=1).start_error or "")
    folder.exit.unlink()
    kept.keep(1, f"--sealed={right}")
    assert kept.ended().code == 0
    assert json.loads((kept.run.path / "told").read_text()) == {}
